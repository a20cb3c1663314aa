"""The CLIP text encoders that SD 1.5, SDXL and FLUX.1 share."""

from __future__ import annotations

from shared.adapter_layers import LayerShape
from shared.families.family import Config, Layers, number

TEXT_MODEL = "text_model."
"""Stands before the layers of a model with projection, and in every file; transformers 5 drops it without one."""

WITH_PROJECTION = "CLIPTextModelWithProjection"


def clip_layers(config: Config) -> Layers:
    """Every linear layer of transformers' ``CLIPTextModel``, or ``CLIPTextModelWithProjection`` if it says so."""
    width, wide = number(config, "hidden_size"), number(config, "intermediate_size")
    projects = WITH_PROJECTION in (config.get("architectures") or ())
    before = TEXT_MODEL if projects else ""
    found: Layers = {"text_projection": LayerShape(width, number(config, "projection_dim"))} if projects else {}
    for block in range(number(config, "num_hidden_layers")):
        layer = f"{before}encoder.layers.{block}"
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            found[f"{layer}.self_attn.{name}"] = LayerShape(width, width)
        found[f"{layer}.mlp.fc1"] = LayerShape(width, wide)
        found[f"{layer}.mlp.fc2"] = LayerShape(wide, width)
    return found


def name_in_files(layer: str) -> str:
    """A layer as adapter files name it, whatever the installed transformers calls it."""
    return layer if layer.startswith((TEXT_MODEL, "text_projection")) else TEXT_MODEL + layer
