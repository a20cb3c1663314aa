"""What diffusers' own converters make of names and of fused layers, where they are right, is what ours make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest
import torch

from shared.adapters.base import BaseLayers
from shared.adapters.header import Header, TensorEntry
from shared.adapters.keys import read_keys
from shared.adapters.plan import plan_adapter
from shared.families.bundled import bundled_models
from tests.shared.adapters.field_headers import field_headers
from worker.compact import CompactAdapter
from worker.convert import convert
from worker.libraries import FluxPipeline, diffusers, hushed

Tensors = dict[str, torch.Tensor]

RANK = 4


def bundled(name: str) -> BaseLayers:
    model = bundled_models()[name]
    return BaseLayers(model.family, model.layers(), top_rank=128)


def header_of(tensors: Mapping[str, torch.Tensor]) -> Header:
    return Header({name: TensorEntry("F32", tuple(tensor.shape), 0, 0) for name, tensor in tensors.items()}, {})


def converted(tensors: Tensors, base: BaseLayers) -> CompactAdapter:
    return convert(plan_adapter(header_of(tensors), base), tensors, "0" * 64, torch.float32)


# --- FLUX: the very tensors -----------------------------------------------------------------------


def flux_file(name: str, alpha: float) -> Tensors:
    """The first blocks of a real file's layers at a small rank, random, each alpha the same."""
    generator = torch.Generator().manual_seed(1)
    tensors = {}
    for key, shape in field_headers()[name].shapes(most_blocks=1).items():
        if not shape:
            tensors[key] = torch.tensor(alpha)
        else:
            small = (RANK, shape[1]) if shape[0] < shape[1] else (shape[0], RANK)
            tensors[key] = torch.randn(small, generator=generator)
    return tensors


def by_diffusers(tensors: Tensors) -> Tensors:
    with hushed():
        found: Tensors = FluxPipeline.lora_state_dict(dict(tensors))
    return found


@pytest.mark.parametrize("name", ["kohya", "xlabs"])
def test_flux_tensors_are_those_of_diffusers_bit_for_bit(name: str) -> None:
    tensors = flux_file(name, alpha=RANK)
    ours, theirs = converted(tensors, bundled("flux.1-dev")), by_diffusers(tensors)
    assert {f"{layer}.lora_{half}.weight" for layer in ours.layers for half in "AB"} == set(theirs)
    for layer, compact in ours.layers.items():
        assert torch.equal(compact.down, theirs[f"{layer}.lora_A.weight"])
        assert torch.equal(compact.up, theirs[f"{layer}.lora_B.weight"])


def test_a_strength_is_folded_into_b_where_diffusers_shares_it_out() -> None:
    tensors = flux_file("kohya", alpha=RANK / 4)
    theirs = by_diffusers(tensors)
    for layer, compact in converted(tensors, bundled("flux.1-dev")).layers.items():
        assert torch.equal(compact.down / 2, theirs[f"{layer}.lora_A.weight"])
        assert torch.equal(compact.up * 2, theirs[f"{layer}.lora_B.weight"])


def test_diffusers_leaves_ai_toolkits_names_and_ours_are_the_same_layers() -> None:
    tensors = flux_file("aitoolkit", alpha=RANK)
    assert set(by_diffusers(tensors)) == set(tensors)
    kohya = {_as_kohya(key): tensor for key, tensor in tensors.items()}
    ours, theirs = converted(tensors, bundled("flux.1-dev")), by_diffusers(kohya)
    for layer, compact in ours.layers.items():
        assert torch.equal(compact.down, theirs[f"{layer}.lora_A.weight"])
        assert torch.equal(compact.up, theirs[f"{layer}.lora_B.weight"])


def _as_kohya(key: str) -> str:
    name, _, half = key.removesuffix(".weight").rpartition(".")
    ending = {"lora_A": "lora_down", "lora_B": "lora_up"}[half]
    return f"{name.replace('diffusion_model.', 'lora_unet_').replace('.', '_')}.{ending}.weight"


def test_the_last_layers_scale_and_shift_change_places_as_in_diffusers() -> None:
    name = "lora_unet_final_layer_adaLN_modulation_1"
    tensors = {f"{name}.lora_down.weight": torch.randn(RANK, 3072), f"{name}.lora_up.weight": torch.randn(6144, RANK)}
    (ours,) = converted(tensors, bundled("flux.1-dev")).layers.values()
    assert torch.equal(ours.up, by_diffusers(tensors)["norm_out.linear.lora_B.weight"])


# --- UNets: every name ----------------------------------------------------------------------------


class UnetConfig:
    """What diffusers reads of a UNet's config to count its blocks."""

    layers_per_block = 2


def unet_by_diffusers(tensors: Tensors, pipeline: Any) -> Tensors:
    with hushed():
        found, _ = pipeline.lora_state_dict(dict(tensors), unet_config=UnetConfig())
    return dict(found)


@cache
def kohya_names(bundled_name: str, wanted: Callable[[str], bool]) -> list[str]:
    return [name for name in bundled(bundled_name).names if wanted(name)]


def sgm(name: str) -> bool:
    """kohya's SDXL names, as its scripts write them."""
    original = name.startswith("lora_unet_") and not any(
        block in name for block in ("down_blocks", "up_blocks", "mid_block")
    )
    around = any(name.startswith(f"lora_unet_{other}") for other in ("conv_", "time_embedding", "add_embedding"))
    return (original and not around) or name.startswith(("lora_te1_", "lora_te2_"))


def plain(name: str) -> bool:
    """kohya's SD 1.5 names: diffusers' own, flattened."""
    original = any(
        part in name for part in ("input_blocks", "output_blocks", "middle_block", "time_embed_", "unet_out_")
    )
    return name.startswith(("lora_unet_", "lora_te_")) and not original


@pytest.mark.parametrize(
    ("bundled_name", "wanted", "pipeline"),
    [
        ("sdxl-base-1.0", sgm, diffusers.StableDiffusionXLPipeline),
        ("sd1.5", plain, diffusers.StableDiffusionPipeline),
    ],
    ids=["sdxl", "sd1.5"],
)
def test_every_name_means_the_layer_that_diffusers_takes_it_for(
    bundled_name: str, wanted: Callable[[str], bool], pipeline: Any
) -> None:
    base = bundled(bundled_name)
    names = kohya_names(bundled_name, wanted)
    assert len(names) == len(base.layers)
    # A tensor of its own for each name; what it is renamed to is found by its value.
    tensors = {}
    for place, name in enumerate(names):
        tensors[f"{name}.lora_down.weight"] = torch.full((1, 1), float(place))
        tensors[f"{name}.lora_up.weight"] = torch.full((1, 1), float(place) + 0.5)
    theirs = unet_by_diffusers(tensors, pipeline)
    ours = read_keys(tensors, base).modules
    meant = {module.name: module.pieces for module in ours}
    for module in read_keys(theirs, base).modules:
        assert module.down is not None
        original = names[int(theirs[module.down].item())]
        assert module.pieces == meant[original], (module.name, original)
