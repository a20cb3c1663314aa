"""Adapter files for tests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file

from shared.adapter_layers import LayerShape
from worker.engine import DiffusersEngine
from worker.engine_types import AdapterFile

QUERY = "transformer_blocks.0.attn.to_q"
VALUE = "transformer_blocks.1.attn.to_v"
OUT = "single_transformer_blocks.2.proj_out"


@dataclass(frozen=True)
class Part:
    """What a file holds for one layer; ``alpha`` None leaves the key out."""

    rank: int
    alpha: float | None = None


def shapes_of(engine: DiffusersEngine) -> dict[str, LayerShape]:
    """The layers of the denoiser, by the names that it has for them."""
    before = f"{engine._family.family.denoiser}."
    layers = engine.layers
    return {name.removeprefix(before): shape for name, shape in layers.items() if name.startswith(before)}


def tensors_of(
    parts: Mapping[str, Part],
    shapes: Mapping[str, LayerShape],
    seed: int = 0,
    endings: tuple[str, str] = (".lora_A.weight", ".lora_B.weight"),
    gain: float = 0.5,
) -> dict[str, torch.Tensor]:
    """Random weights of these ranks, strong enough that any of them changes a picture."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for layer, part in parts.items():
        shape = shapes[layer]
        down = torch.randn(part.rank, shape.inputs, generator=generator) * gain
        up = torch.randn(shape.outputs, part.rank, generator=generator) * gain
        tensors[f"transformer.{layer}{endings[0]}"] = down
        tensors[f"transformer.{layer}{endings[1]}"] = up
        if part.alpha is not None:
            tensors[f"transformer.{layer}.alpha"] = torch.tensor(float(part.alpha))
    return tensors


def write(path: Path, tensors: Mapping[str, torch.Tensor], config: Mapping[str, object] | None = None) -> Path:
    """Save as safetensors; ``config`` goes into the metadata, as diffusers writes it."""
    metadata = {"format": "pt"}
    if config is not None:
        packed = {f"transformer.{key}": value for key, value in config.items()}
        metadata["lora_adapter_metadata"] = json.dumps(packed)
    save_file(dict(tensors), path, metadata=metadata)
    return path


def adapter(path: Path, scale: float = 1.0) -> AdapterFile:
    """The file as a job names it, with the hash of its bytes."""
    return AdapterFile(path.stem, path, hashlib.sha256(path.read_bytes()).hexdigest(), scale)
