"""The same weights written in every dialect make the same adapter, and the same picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.worker.adapter_files import adapter, shapes_of
from tests.worker.cases import apply, shown
from worker.compact import CompactAdapter
from worker.convert import read_adapter
from worker.engine import DiffusersEngine

ALPHA, RANK = 2.0, 4
BLOCK = "transformer_blocks.1"
QKV = tuple(f"{BLOCK}.attn.{name}" for name in ("to_q", "to_k", "to_v"))
OUT = f"{BLOCK}.attn.to_out.0"
Tensors = dict[str, torch.Tensor]


def weights(engine: DiffusersEngine) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """A and B by layer; one A for the three that fused dialects hold together."""
    generator = torch.Generator().manual_seed(4)
    width = shapes_of(engine)[OUT].inputs
    shared = torch.randn(RANK, width, generator=generator)
    found = {layer: (shared, torch.randn(width, RANK, generator=generator)) for layer in QKV}
    found[OUT] = (torch.randn(RANK, width, generator=generator), torch.randn(width, RANK, generator=generator))
    return found


def split(engine: DiffusersEngine, name: Callable[[str], str], down: str, up: str) -> Tensors:
    found = {}
    for layer, (a, b) in weights(engine).items():
        found |= {f"{name(layer)}.{down}.weight": a.clone(), f"{name(layer)}.{up}.weight": b}
        found[f"{name(layer)}.alpha"] = torch.tensor(ALPHA)
    return found


def fused(engine: DiffusersEngine, qkv: str, out: str, down: str, up: str) -> Tensors:
    parts = weights(engine)
    shared, stacked = parts[QKV[0]][0], torch.cat([parts[layer][1] for layer in QKV])
    found = {}
    for name, (a, b) in ((qkv, (shared, stacked)), (out, parts[OUT])):
        found |= {f"{name}.{down}.weight": a, f"{name}.{up}.weight": b, f"{name}.alpha": torch.tensor(ALPHA)}
    return found


def processor(layer: str) -> str:
    parent, _, last = layer.removesuffix(".0").rpartition(".")
    return f"transformer.{parent}.processor.{last}_lora"


WRITTEN: dict[str, Callable[[DiffusersEngine], Tensors]] = {
    "diffusers": lambda engine: split(engine, "transformer.{}".format, "lora_A", "lora_B"),
    "diffusers, middle-aged": lambda engine: split(engine, "transformer.{}".format, "lora_down", "lora_up"),
    "diffusers, processors": lambda engine: split(engine, processor, "down", "up"),
    "peft": lambda engine: split(engine, "base_model.model.{}".format, "lora_A", "lora_B"),
    "bare": lambda engine: split(engine, str, "lora_A", "lora_B"),
    "onetrainer": lambda engine: split(
        engine, lambda layer: f"lora_transformer_{layer.replace('.', '_')}", "lora_down", "lora_up"
    ),
    "kohya": lambda engine: fused(
        engine,
        "lora_unet_double_blocks_1_img_attn_qkv",
        "lora_unet_double_blocks_1_img_attn_proj",
        "lora_down",
        "lora_up",
    ),
    "comfyui": lambda engine: fused(
        engine,
        "diffusion_model.double_blocks.1.img_attn.qkv",
        "diffusion_model.double_blocks.1.img_attn.proj",
        "lora_A",
        "lora_B",
    ),
    "xlabs": lambda engine: fused(
        engine, "double_blocks.1.processor.qkv_lora1", "double_blocks.1.processor.proj_lora1", "down", "up"
    ),
}


@pytest.fixture(scope="module")
def files(engine: DiffusersEngine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("dialects")
    found = {}
    for number, (name, tensors) in enumerate(WRITTEN.items()):
        found[name] = folder / f"{number}.safetensors"
        save_file(tensors(engine), found[name])
    return found


def read(engine: DiffusersEngine, path: Path) -> CompactAdapter:
    return read_adapter(path, adapter(path).sha256, engine._base, torch.float32)


@pytest.mark.parametrize("name", WRITTEN)
def test_the_same_weights_make_the_same_adapter(name: str, engine: DiffusersEngine, files: dict[str, Path]) -> None:
    found = read(engine, files[name]).layers
    assert set(found) == {f"transformer.{layer}" for layer in (*QKV, OUT)}
    for layer, (a, b) in weights(engine).items():
        compact = found[f"transformer.{layer}"]
        assert torch.equal(compact.down, a)
        assert torch.equal(compact.up, b * (ALPHA / RANK))


def test_the_same_weights_make_the_same_picture(engine: DiffusersEngine, files: dict[str, Path]) -> None:
    apply(engine, [])
    plain = shown(engine)
    pictures = {}
    for name, path in files.items():
        apply(engine, [adapter(path)])
        pictures[name] = shown(engine)
    assert not np.array_equal(pictures["diffusers"], plain)
    assert [name for name, picture in pictures.items() if not np.array_equal(picture, pictures["diffusers"])] == []
