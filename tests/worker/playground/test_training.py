"""The training itself, a few steps of it: it goes on from where it was stopped, and ends in weights that load."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from worker.libraries import FluxPipeline
from worker.playground import checkpoint, lessons, train_adapters, train_autoencoder, train_transformer
from worker.playground.adapters import ADAPTERS
from worker.playground.assemble import export
from worker.playground.bundled import bundled

STEPS = 3


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setattr(checkpoint, "EVERY", 1)
    monkeypatch.setattr(train_autoencoder, "CROP_BATCH", 2)
    monkeypatch.setattr(train_autoencoder, "MEASURED", 8)
    monkeypatch.setattr(train_transformer, "BATCH", 4)
    monkeypatch.setattr(train_adapters, "BATCH", 4)
    few = {name: replace(adapter, pictures=16) for name, adapter in ADAPTERS.items()}
    monkeypatch.setattr(train_adapters, "ADAPTERS", few)
    some = list(lessons.all_scenes())[:40]
    monkeypatch.setattr(lessons, "all_scenes", lambda: iter(some))


def stopped_after(monkeypatch: pytest.MonkeyPatch, module: object, steps: int) -> None:
    said = []

    def say(work: Path, line: str, started_s: float) -> None:
        said.append(line)
        if sum(" step " in line for line in said) == steps:
            raise KeyboardInterrupt

    monkeypatch.setattr(module, "say", say)


def test_a_stopped_training_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train_autoencoder.train_autoencoder(tmp_path / "whole", STEPS)
    with monkeypatch.context() as patched:
        stopped_after(patched, train_autoencoder, 2)
        with pytest.raises(KeyboardInterrupt):
            train_autoencoder.train_autoencoder(tmp_path / "parts", STEPS)
    parts = train_autoencoder.train_autoencoder(tmp_path / "parts", STEPS)
    for one, other in zip(whole.parameters(), parts.parameters(), strict=True):
        assert torch.equal(one, other)


def test_all_stages_end_in_weights_that_load(tmp_path: Path) -> None:
    work, out = tmp_path / "work", tmp_path / "out"
    autoencoder = train_autoencoder.train_autoencoder(work, 1)
    transformer = train_transformer.train_transformer(work, autoencoder, STEPS)
    adapters = {
        name: train_adapters.train_adapter(work, name, autoencoder, transformer, STEPS) for name in ("star", "mosaic")
    }
    export(out, autoencoder, transformer, adapters)
    found = bundled(out)
    assert set(found.adapters) == {"star", "mosaic"}
    pipeline = FluxPipeline.from_pretrained(found.pipeline_folder, dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    images = pipeline("a red circle", width=128, height=128, num_inference_steps=1, max_sequence_length=10).images
    assert images[0].size == (128, 128)
    assert any(key.startswith("lora_unet_single_blocks_") for key in load_file(found.adapters["mosaic"]))


def test_a_resumed_transformer_and_adapter_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    autoencoder = train_autoencoder.train_autoencoder(tmp_path / "a", 1)
    whole = train_transformer.train_transformer(tmp_path / "whole", autoencoder, STEPS)
    adapter = train_adapters.train_adapter(tmp_path / "whole", "night", autoencoder, whole, STEPS)
    with monkeypatch.context() as patched:
        stopped_after(patched, train_transformer, 1)
        stopped_after(patched, train_adapters, 1)
        with pytest.raises(KeyboardInterrupt):
            train_transformer.train_transformer(tmp_path / "parts", autoencoder, STEPS)
        with pytest.raises(KeyboardInterrupt):
            train_adapters.train_adapter(tmp_path / "parts", "night", autoencoder, whole, STEPS)
    parts = train_transformer.train_transformer(tmp_path / "parts", autoencoder, STEPS)
    again = train_adapters.train_adapter(tmp_path / "parts", "night", autoencoder, whole, STEPS)
    for one, other in zip(whole.parameters(), parts.parameters(), strict=True):
        assert torch.equal(one, other)
    assert all(torch.equal(adapter[key], again[key]) for key in adapter)


def test_every_adapter_reaches_layers_and_keeps_to_its_size() -> None:
    model = train_transformer.transformer_of_seed()
    sizes = dict(model.named_modules())
    for adapter in ADAPTERS.values():
        layers = train_adapters.layers_of(model, adapter)
        assert layers
        count = 0
        for layer in layers:
            rank = next((rank for end, rank in adapter.ranks.items() if layer.endswith(end)), adapter.rank)
            count += rank * (sizes[layer].in_features + sizes[layer].out_features)
        assert 2 * count <= 400_000
