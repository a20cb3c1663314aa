"""Real adapters' headers, scaled down and filled with weights, through the real converter onto a real small model.

What reaches a layer must be exactly what the file says: a fused layer's product is the parts' products, one under
another.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from shared.adapters.base import BaseLayers
from shared.errors import AdapterMismatch, AdapterUnsupported
from shared.families.flux import FLUX, transformer_layers
from tests.shared.adapters.field_headers import FieldHeader, field_headers
from tests.worker.adapter_files import adapter
from worker.convert import read_adapter
from worker.libraries import FluxTransformer2DModel

HEADERS = field_headers()
BLOCKS = 2
WIDTH, FULL_WIDTH = 16, 3072
RANK = 4


@pytest.fixture(scope="module")
def base() -> BaseLayers:
    model = FluxTransformer2DModel(
        patch_size=1,
        in_channels=8,
        num_layers=BLOCKS,
        num_single_layers=BLOCKS,
        attention_head_dim=8,
        num_attention_heads=2,
        joint_attention_dim=24,
        pooled_projection_dim=20,
        guidance_embeds=True,
        axes_dims_rope=(2, 2, 4),
    )
    layers = {f"transformer.{name}": shape for name, shape in transformer_layers(model.config).items()}
    return BaseLayers(FLUX, layers, top_rank=16)


def scaled_down(header: FieldHeader) -> dict[str, torch.Tensor]:
    """The file's first blocks at the small model's width and a small rank; an alpha is half the rank."""
    generator = torch.Generator().manual_seed(2)
    tensors = {}
    for name, shape in header.shapes(BLOCKS).items():
        wide = [_scaled(number) for number in shape]
        values = torch.randn(wide, generator=generator) if wide else torch.tensor(RANK / 2)
        tensors[name] = values.bfloat16()
    return tensors


def _scaled(number: int) -> int:
    return number * WIDTH // FULL_WIDTH if number >= FULL_WIDTH else min(number, RANK)


def products(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What the file adds to each layer of its own naming."""
    found = {}
    for key in tensors:
        for down, up in ((".lora_A.", ".lora_B."), (".lora_down.", ".lora_up."), (".down.", ".up.")):
            name, there, _ = key.partition(down)
            if there and key.endswith(f"{down}weight"):
                strength = 0.5 if f"{name}.alpha" in tensors else 1.0
                found[name] = tensors[name + f"{up}weight"].float() * strength @ tensors[key].float()
                break
    return found


@pytest.mark.parametrize("name", ["aitoolkit", "diffusers", "kohya", "xlabs"])
def test_what_reaches_the_layers_is_what_the_file_says(name: str, base: BaseLayers, tmp_path: Path) -> None:
    tensors = scaled_down(HEADERS[name])
    path = tmp_path / "a.safetensors"
    save_file(tensors, path)
    found = read_adapter(path, adapter(path).sha256, base, torch.float32)
    reached = {layer: compact.up @ compact.down for layer, compact in found.layers.items()}
    said = products(tensors)
    for original, product in said.items():
        pieces = base.names[original].pieces
        assert torch.equal(torch.cat([reached.pop(piece.layer) for piece in pieces]), product)
    assert reached == {}
    for layer, compact in found.layers.items():
        shape = base.layers[layer]
        assert (compact.down.shape, compact.up.shape) == ((RANK, shape.inputs), (shape.outputs, RANK))


@pytest.mark.parametrize(("name", "reason"), [("dora_onetrainer", "dora"), ("control_lora", "control")])
def test_what_is_refused_at_full_shape_is_refused_here(
    name: str, reason: str, base: BaseLayers, tmp_path: Path
) -> None:
    path = tmp_path / "a.safetensors"
    save_file(scaled_down(HEADERS[name]), path)
    with pytest.raises(AdapterUnsupported) as refused:
        read_adapter(path, adapter(path).sha256, base, torch.float32)
    assert refused.value.reason == reason


@pytest.mark.parametrize("name", ["aitoolkit", "diffusers", "kohya", "xlabs"])
def test_doubled_dimensions_are_refused(name: str, base: BaseLayers, tmp_path: Path) -> None:
    doubled = {
        key: tensor if tensor.ndim == 0 else tensor.repeat(*(2 if size > RANK else 1 for size in tensor.shape))
        for key, tensor in scaled_down(HEADERS[name]).items()
    }
    path = tmp_path / "a.safetensors"
    save_file(doubled, path)
    with pytest.raises(AdapterMismatch, match="in this base model it has"):
        read_adapter(path, adapter(path).sha256, base, torch.float32)
