"""What adapter files call the layers of a base model: one table over all dialects, built from its layers.

A key of a file is a name from this table and an ending (``.lora_A.weight`` and its relatives). Nothing is guessed from
a name: it stands in the table, or it is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from shared.adapter_layers import LayerShape
from shared.families.clip import TEXT_MODEL, name_in_files
from shared.families.family import Family, Layers, OriginalNames, Piece, component_of


class Dialect(Enum):
    """Ways to name layers. The value is what callers see."""

    DIFFUSERS = "diffusers"
    DIFFUSERS_OLD = "diffusers-old"
    PEFT = "peft"
    KOHYA = "kohya"
    COMFYUI = "comfyui"
    ONETRAINER = "onetrainer"
    XLABS = "xlabs"


PEFT_ENDINGS = (".lora_A.weight", ".lora_B.weight")
KOHYA_ENDINGS = (".lora_down.weight", ".lora_up.weight")
OLD_ENDINGS = (".down.weight", ".up.weight")
PAIRS = (PEFT_ENDINGS, KOHYA_ENDINGS, OLD_ENDINGS)
"""Endings of A and of B. The last pair follows names that say themselves that they are a LoRA's."""


@dataclass(frozen=True)
class Named:
    """What a name means: the layers it stands for. ``old``: whether only ``OLD_ENDINGS`` follow it."""

    dialect: Dialect
    pieces: tuple[Piece, ...]
    old: bool = False


NameTable = Mapping[str, Named]

_ATTENTION = re.compile(r"(.+)\.(to_q|to_k|to_v|to_out)(\.0)?")
_CLIP_ATTENTION = {"q_proj": "to_q", "k_proj": "to_k", "v_proj": "to_v", "out_proj": "to_out"}
_COMFYUI_ENCODERS = {"text_encoder": "clip_l", "text_encoder_2": "clip_g"}
_PEFT_PREFIX = "base_model.model."


def name_table(family: Family, layers: Mapping[str, LayerShape]) -> NameTable:
    """Every name in every dialect for these layers, which are named with their component."""
    table: dict[str, Named] = {}
    for component in dict.fromkeys(map(component_of, layers)):
        own = {
            layer.removeprefix(f"{component}."): shape
            for layer, shape in layers.items()
            if component_of(layer) == component
        }
        named = _denoiser(family, own) if component == family.denoiser else _text_encoder(family, component, own)
        for name, meaning in named:
            pieces = tuple(replace(piece, layer=f"{component}.{piece.layer}") for piece in meaning.pieces)
            table.setdefault(name, replace(meaning, pieces=pieces))
    return table


def _flat(name: str) -> str:
    return name.replace(".", "_")


def _denoiser(family: Family, layers: Layers) -> Iterator[tuple[str, Named]]:
    own: OriginalNames = {layer: (Piece(layer),) for layer in layers}
    original = family.original_names(layers)
    yield from _diffusers(f"{family.denoiser}.", layers)
    yield from _prefixed(Dialect.PEFT, _PEFT_PREFIX, own | original)
    yield from _prefixed(Dialect.PEFT, "", own | original)
    yield from _prefixed(Dialect.COMFYUI, "diffusion_model.", original)
    yield from _flattened(Dialect.KOHYA, "lora_unet_", original)
    yield from _flattened(*_underscored(family), own)
    if family.denoiser == "unet":
        for layer in layers:
            if (old := _processor(layer)) is not None:
                yield old, Named(Dialect.DIFFUSERS_OLD, (Piece(layer),), old=True)
    if family.processor_names is not None:
        for name, pieces in family.processor_names(layers).items():
            for prefix in ("", "diffusion_model."):
                yield prefix + name, Named(Dialect.XLABS, pieces, old=True)


def _underscored(family: Family) -> tuple[Dialect, str]:
    # kohya's scripts train SD 1.5 on diffusers' UNet; only OneTrainer does the like with a transformer.
    if family.denoiser == "unet":
        return Dialect.KOHYA, "lora_unet_"
    return Dialect.ONETRAINER, f"lora_{family.denoiser}_"


def _diffusers(prefix: str, layers: Layers) -> Iterator[tuple[str, Named]]:
    for layer in layers:
        pieces = (Piece(layer),)
        yield prefix + layer, Named(Dialect.DIFFUSERS, pieces)
        yield f"{prefix}{layer}.lora", Named(Dialect.DIFFUSERS_OLD, pieces, old=True)
        if (old := _processor(layer)) is not None:
            yield prefix + old, Named(Dialect.DIFFUSERS_OLD, pieces, old=True)


def _processor(layer: str) -> str | None:
    match = _ATTENTION.fullmatch(layer)
    return None if match is None else f"{match[1]}.processor.{match[2]}_lora"


def _text_encoder(family: Family, component: str, layers: Layers) -> Iterator[tuple[str, Named]]:
    number = family.text_encoders.index(component) + 1
    flat = [f"lora_te{number}_"] + (["lora_te_"] if number == 1 else [])
    for layer in layers:
        written, pieces = name_in_files(layer), (Piece(layer),)
        for spelled in {written, written.removeprefix(TEXT_MODEL)}:
            name = f"{component}.{spelled}"
            yield name, Named(Dialect.DIFFUSERS, pieces)
            yield f"{name}.lora", Named(Dialect.DIFFUSERS_OLD, pieces, old=True)
            yield f"{name}.lora_linear_layer", Named(Dialect.DIFFUSERS_OLD, pieces, old=True)
            parent, _, last = name.rpartition(".")
            if last in _CLIP_ATTENTION:
                yield f"{parent}.{_CLIP_ATTENTION[last]}_lora", Named(Dialect.DIFFUSERS_OLD, pieces, old=True)
        for prefix in flat:
            yield prefix + _flat(written), Named(Dialect.KOHYA, pieces)
        encoder = _COMFYUI_ENCODERS[component]
        yield f"text_encoders.{encoder}.transformer.{written}", Named(Dialect.COMFYUI, pieces)


def _prefixed(dialect: Dialect, prefix: str, names: OriginalNames) -> Iterator[tuple[str, Named]]:
    for name, pieces in names.items():
        yield prefix + name, Named(dialect, pieces)


def _flattened(dialect: Dialect, prefix: str, names: OriginalNames) -> Iterator[tuple[str, Named]]:
    for name, pieces in names.items():
        yield prefix + _flat(name), Named(dialect, pieces)
