from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from shared.adapter_layers import LayerShape
from shared.adapters.base import BaseLayers
from shared.catalogue import BaseModelEntry
from shared.errors import AdapterChanged, AdapterNotFinite, AdapterUnreadable, AdapterUnsupported
from shared.families.flux import FLUX, transformer_layers
from shared.families.sd15 import SD15
from tests.worker.adapter_files import OUT, QUERY, VALUE, Part, adapter, tensors_of, write
from tests.worker.random_flux import RandomFlux
from worker.compact import CompactAdapter
from worker.convert import read_adapter
from worker.libraries import FluxPipeline, LoraLayer, hushed, inject_adapter_in_model, peft
from worker.load import load_pipeline

TOP_RANK = 16


@pytest.fixture(scope="module")
def pipeline(entry: BaseModelEntry, tiny: RandomFlux) -> FluxPipeline:
    return load_pipeline(entry)[0]


@pytest.fixture(scope="module")
def shapes(pipeline: FluxPipeline) -> dict[str, LayerShape]:
    return transformer_layers(pipeline.transformer.config)


@pytest.fixture
def fresh(entry: BaseModelEntry) -> FluxPipeline:
    return load_pipeline(entry)[0]


def read(path: Path, shapes: dict[str, LayerShape], dtype: torch.dtype = torch.float32) -> CompactAdapter:
    return read_adapter(path, adapter(path).sha256, base_of(shapes), dtype)


def base_of(shapes: dict[str, LayerShape]) -> BaseLayers:
    return BaseLayers(FLUX, {f"transformer.{name}": shape for name, shape in shapes.items()}, TOP_RANK)


def strengths(path: Path, shapes: dict[str, LayerShape], endings: tuple[str, str] | None = None) -> dict[str, object]:
    """What the converter multiplied each layer's B with."""
    raw = load_file(path)
    ending = (endings or (".lora_A.weight", ".lora_B.weight"))[1]
    found: dict[str, object] = {}
    for name, layer in read(path, shapes).layers.items():
        ratio = layer.up / raw[f"{name}{ending}"].to(torch.float32)
        assert ratio.std() < 1e-6 * abs(ratio.mean()) + 1e-9
        found[name.removeprefix("transformer.")] = pytest.approx(float(ratio.median()), rel=1e-6)
    return found


def diffusers_strengths(path: Path, fresh: FluxPipeline) -> dict[str, float]:
    with hushed():
        fresh.load_lora_weights(str(path.parent), weight_name=path.name, adapter_name="a")
    layers = {name: layer for name, layer in fresh.transformer.named_modules() if isinstance(layer, LoraLayer)}
    return {name: layer.scaling["a"] for name, layer in layers.items() if "a" in layer.scaling}


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({QUERY: Part(4), VALUE: Part(16)}, {QUERY: 1.0, VALUE: 1.0}),
        ({QUERY: Part(4, 4), VALUE: Part(8, 4), OUT: Part(4, 4)}, {QUERY: 1.0, VALUE: 0.5, OUT: 1.0}),
        ({QUERY: Part(4, 2), VALUE: Part(8, 12)}, {QUERY: 0.5, VALUE: 1.5}),
        ({QUERY: Part(2, 0.0)}, {QUERY: 0.0}),
    ],
)
def test_strength_is_alpha_by_rank_as_diffusers_loads_it(
    parts: dict[str, Part],
    expected: dict[str, float],
    shapes: dict[str, LayerShape],
    fresh: FluxPipeline,
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "a.safetensors", tensors_of(parts, shapes))
    assert strengths(path, shapes) == expected
    assert diffusers_strengths(path, fresh) == expected


def test_a_layer_without_alpha_has_strength_one_whatever_the_others_have(
    shapes: dict[str, LayerShape], fresh: FluxPipeline, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.safetensors", tensors_of({QUERY: Part(4, 2), VALUE: Part(4)}, shapes))
    assert strengths(path, shapes) == {QUERY: 0.5, VALUE: 1.0}
    # diffusers lends the one alpha to both; that is not what the file says.
    assert diffusers_strengths(path, fresh) == {QUERY: 0.5, VALUE: 0.5}


def test_alpha_counts_in_the_older_spelling_too(
    shapes: dict[str, LayerShape], fresh: FluxPipeline, tmp_path: Path
) -> None:
    endings = (".lora_down.weight", ".lora_up.weight")
    path = write(tmp_path / "a.safetensors", tensors_of({QUERY: Part(4, 2)}, shapes, endings=endings))
    assert strengths(path, shapes, endings) == {QUERY: 0.5}
    # diffusers renames the halves and loses the alpha; that is not what the file says.
    assert diffusers_strengths(path, fresh) == {QUERY: 1.0}


@pytest.mark.parametrize("rank_stabilised", [False, True])
def test_what_diffusers_saves_is_read_with_its_metadata(
    rank_stabilised: bool,
    shapes: dict[str, LayerShape],
    entry: BaseModelEntry,
    tmp_path: Path,
) -> None:
    trained, fresh = (load_pipeline(entry)[0] for _ in range(2))
    config = peft.LoraConfig(
        r=4,
        lora_alpha=12,
        rank_pattern={VALUE: 9},
        alpha_pattern={"attn.to_v": 3},
        use_rslora=rank_stabilised,
        target_modules=[QUERY, VALUE, OUT],
        init_lora_weights=False,
    )
    inject_adapter_in_model(config, trained.transformer, adapter_name="default")
    trained.save_lora_weights(
        tmp_path,
        transformer_lora_layers=peft.get_peft_model_state_dict(trained.transformer, adapter_name="default"),
        transformer_lora_adapter_metadata=config.to_dict() | {"target_modules": sorted([QUERY, VALUE, OUT])},
    )
    path = tmp_path / "pytorch_lora_weights.safetensors"
    root = math.sqrt if rank_stabilised else float
    expected = {QUERY: 12 / root(4), VALUE: 3 / root(9), OUT: 12 / root(4)}
    assert strengths(path, shapes) == expected
    assert diffusers_strengths(path, fresh) == expected


def test_what_peft_saves_is_refused_since_its_alpha_lies_elsewhere(fresh: FluxPipeline, tmp_path: Path) -> None:
    shapes = transformer_layers(fresh.transformer.config)
    with hushed():
        model = peft.get_peft_model(fresh.transformer, peft.LoraConfig(r=4, lora_alpha=2, target_modules=[QUERY]))
        model.save_pretrained(tmp_path / "peft")
    with pytest.raises(AdapterUnsupported, match=r"adapter_config\.json"):
        read(tmp_path / "peft" / "adapter_model.safetensors", shapes)


def test_two_alphas_that_contradict_each_other(shapes: dict[str, LayerShape], tmp_path: Path) -> None:
    tensors = tensors_of({QUERY: Part(4, 2)}, shapes)
    agreeing = write(tmp_path / "agree.safetensors", tensors, {"r": 4, "lora_alpha": 2})
    assert strengths(agreeing, shapes) == {QUERY: 0.5}
    with pytest.raises(AdapterUnsupported, match="alpha 2"):
        read(write(tmp_path / "differ.safetensors", tensors, {"r": 4, "lora_alpha": 3}), shapes)


def test_half_precision_weights_are_taken_as_they_are(shapes: dict[str, LayerShape], tmp_path: Path) -> None:
    tensors = {key: value.bfloat16() for key, value in tensors_of({QUERY: Part(4)}, shapes).items()}
    layer = read(write(tmp_path / "a.safetensors", tensors), shapes).layers[f"transformer.{QUERY}"]
    assert torch.equal(layer.down, tensors[f"transformer.{QUERY}.lora_A.weight"].float())
    assert layer.up.dtype == torch.float32


@pytest.mark.parametrize("ending", [".lora_A.weight", ".lora_B.weight", ".alpha"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_values_that_are_not_finite(ending: str, value: float, shapes: dict[str, LayerShape], tmp_path: Path) -> None:
    tensors = tensors_of({QUERY: Part(4, 2)}, shapes)
    tensors[f"transformer.{QUERY}{ending}"].view(-1)[-1] = value
    with pytest.raises(AdapterNotFinite, match="to_q"):
        read(write(tmp_path / "a.safetensors", tensors), shapes)


def test_values_that_the_slot_cannot_hold(shapes: dict[str, LayerShape], tmp_path: Path) -> None:
    path = write(tmp_path / "a.safetensors", tensors_of({QUERY: Part(4, 4e6)}, shapes))
    assert read(path, shapes).rank == 4
    with pytest.raises(AdapterNotFinite, match="not finite in float16"):
        read(path, shapes, torch.float16)


def test_other_bytes_than_the_jobs(shapes: dict[str, LayerShape], tmp_path: Path) -> None:
    path = write(tmp_path / "a.safetensors", tensors_of({QUERY: Part(4)}, shapes))
    admitted = adapter(path).sha256
    for content in (write(tmp_path / "b.safetensors", tensors_of({QUERY: Part(4)}, shapes, 1)).read_bytes(), b"<html>"):
        path.write_bytes(content)
        with pytest.raises(AdapterChanged):
            read_adapter(path, admitted, base_of(shapes), torch.float32)


def test_what_is_no_file(shapes: dict[str, LayerShape], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "absent", tmp_path, tmp_path / "pipe"):
        with pytest.raises(AdapterUnreadable):
            read_adapter(path, "0" * 64, base_of(shapes), torch.float32)


def test_a_pickle_is_never_loaded(shapes: dict[str, LayerShape], tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(1)}, tmp_path / "a.safetensors")
    with pytest.raises(AdapterUnreadable, match="pickle"):
        read(tmp_path / "a.safetensors", shapes)


@pytest.mark.parametrize("stored", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("slot", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_of_eight_bits_are_taken_exactly(
    stored: torch.dtype, slot: torch.dtype, shapes: dict[str, LayerShape], tmp_path: Path
) -> None:
    codes = torch.arange(256, dtype=torch.uint8).view(stored)
    finite = codes[torch.isfinite(codes.float())]
    width = shapes[QUERY].inputs
    values = finite.repeat(math.ceil(4 * width / len(finite)))[: 4 * width]
    assert set(values.float().tolist()) == set(finite.float().tolist())
    down, up = values.reshape(4, width).clone(), values.reshape(width, 4).clone()
    tensors = {f"transformer.{QUERY}.lora_A.weight": down, f"transformer.{QUERY}.lora_B.weight": up}
    layer = read(write(tmp_path / "a.safetensors", tensors), shapes, slot).layers[f"transformer.{QUERY}"]
    assert torch.equal(layer.down.double(), down.double())
    assert torch.equal(layer.up.double(), up.double())
    tensors[f"transformer.{QUERY}.lora_B.weight"] = torch.full((width, 4), math.nan).to(stored)
    with pytest.raises(AdapterNotFinite):
        read(write(tmp_path / "b.safetensors", tensors), shapes, slot)


def test_convolutions_are_what_peft_makes_of_them(tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv_in = torch.nn.Conv2d(4, 6, 3, padding=1)
            self.conv_out = torch.nn.Conv2d(6, 6, 1)

    generator = torch.Generator().manual_seed(3)
    layers = {"unet.conv_in": LayerShape(4, 6, (3, 3)), "unet.conv_out": LayerShape(6, 6, (1, 1))}
    halves = {"conv_in": ((2, 4, 3, 3), (6, 2, 1, 1)), "conv_out": ((2, 6), (6, 2))}
    tensors = {}
    for name, shape in halves.items():
        for half, size in zip(("A", "B"), shape, strict=True):
            tensors[f"unet.{name}.lora_{half}.weight"] = torch.randn(size, generator=generator)
    path = write(tmp_path / "a.safetensors", tensors)
    found = read_adapter(path, adapter(path).sha256, BaseLayers(SD15, layers, TOP_RANK), torch.float32)
    model = Model()
    inject_adapter_in_model(peft.LoraConfig(r=2, lora_alpha=2, target_modules=["conv_in", "conv_out"]), model)
    for name, compact in found.layers.items():
        layer = model.get_submodule(name.removeprefix("unet."))
        layer.lora_A["default"].weight.data.copy_(compact.down)
        layer.lora_B["default"].weight.data.copy_(compact.up)
        raw = [tensors[f"{name}.lora_{half}.weight"].flatten(1) for half in "BA"]
        assert torch.allclose(layer.get_delta_weight("default").flatten(1), raw[0] @ raw[1])
