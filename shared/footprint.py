"""How much memory a base model takes with a recipe, estimated from its number of weights. Pure; no torch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shared.adapter_layers import LayerShape
from shared.adapters.served import base_of
from shared.catalogue import BaseModelEntry, Parameters
from shared.families.family import component_of
from shared.recipe import ITEM_BYTES, Dtype, Recipe

_ROW_SCALE_BYTES = 4
# Four bits each, and a scale of 32 bits for each block of 64.
_NF4_BYTES = 0.5 + 4 / 64


@dataclass(frozen=True)
class Estimate:
    """What lies in the memory at the worst moment, in bytes.

    ``weights_bytes``: denoiser and autoencoder. ``slot_bytes``: for the top rank tier; the lower ones share it.
    ``activations_bytes``: for one picture of the largest size. ``total_bytes``: less than the sum where components
    take turns. ``loading_bytes``: all weights as they are read, which the computer holds until they are quantised.
    """

    weights_bytes: int
    text_encoders_bytes: int
    slot_bytes: int
    activations_bytes: int
    total_bytes: int
    loading_bytes: int


def estimate(entry: BaseModelEntry, recipe: Recipe) -> Estimate | None:
    """For this recipe, or None where the entry does not say how many weights its components have, or its layers."""
    base = base_of(entry)
    if entry.parameters is None or base is None:
        return None
    dtype = recipe.dtype or entry.dtype
    item_bytes, vae_item_bytes = ITEM_BYTES[dtype], _vae_item_bytes(entry, dtype)
    denoiser = _denoiser_bytes(entry.parameters, recipe, base.layers, base.family.denoiser, item_bytes)
    vae = entry.parameters.vae * vae_item_bytes
    large = _large_text_encoder_bytes(entry.parameters, recipe, item_bytes)
    small = entry.parameters.text_encoders * item_bytes
    slot = slot_bytes(base.layers, entry.slot.top_rank, item_bytes)
    pixels = entry.sizes.largest**2
    drawing = int(pixels * entry.parameters.denoiser_activations * item_bytes)
    decoding = int(pixels * entry.parameters.vae_activations * vae_item_bytes)
    if recipe.offload == "model":
        peak = slot + max(denoiser + max(drawing, slot), vae + decoding, large, small)
    else:
        # A swap brings a second set of the slot's weights, before anything is drawn.
        peak = denoiser + vae + large + small + slot + max(drawing, decoding, slot)
    counts = entry.parameters
    read = (counts.denoiser + counts.large_text_encoder + counts.text_encoders + counts.vae) * item_bytes
    return Estimate(denoiser + vae, large + small, slot, max(drawing, decoding), peak, read)


def slot_bytes(layers: Mapping[str, LayerShape], rank: int, item_bytes: int) -> int:
    """Both halves of every layer at this rank."""
    return rank * item_bytes * sum(_inputs(shape) + shape.outputs for shape in layers.values())


def _denoiser_bytes(
    parameters: Parameters, recipe: Recipe, layers: Mapping[str, LayerShape], denoiser: str, item_bytes: int
) -> int:
    # The fuse path keeps the weights as they were.
    whole = parameters.denoiser * item_bytes * (2 if recipe.fuse else 1)
    if recipe.quantise == "none":
        return whole
    linear = [shape for name, shape in layers.items() if component_of(name) == denoiser and shape.kernel is None]
    quantised = sum(shape.inputs * shape.outputs for shape in linear)
    return (parameters.denoiser - quantised) * item_bytes + quantised + _scales(linear)


def _large_text_encoder_bytes(parameters: Parameters, recipe: Recipe, item_bytes: int) -> int:
    kept = parameters.large_text_encoder_embeddings * item_bytes
    linear = parameters.large_text_encoder - parameters.large_text_encoder_embeddings
    each = {"none": item_bytes, "int8-weight-only": 1, "nf4": _NF4_BYTES}[recipe.text_encoder]
    return kept + math.ceil(linear * each)


def _vae_item_bytes(entry: BaseModelEntry, dtype: Dtype) -> int:
    # diffusers decodes SDXL in float32 where its weights are float16, which overflows.
    return ITEM_BYTES["float32" if entry.family == "sdxl" and dtype == "float16" else dtype]


def _scales(linear: Iterable[LayerShape]) -> int:
    return sum(shape.outputs for shape in linear) * _ROW_SCALE_BYTES


def _inputs(shape: LayerShape) -> int:
    return shape.inputs * math.prod(shape.kernel or (1,))
