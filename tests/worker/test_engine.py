from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from shared.catalogue import BaseModelEntry
from shared.errors import (
    AdapterError,
    AdapterMismatch,
    AdapterNotFinite,
    AdapterRankTooLarge,
    AdapterUnreadable,
    GenerationFailed,
    Misconfigured,
)
from tests.worker.adapter_files import QUERY, Part, adapter, shapes_of, tensors_of, write
from tests.worker.cases import (
    CASES,
    DRAWING,
    EXACT,
    Fresh,
    apply,
    by_diffusers,
    by_fresh_processes,
    files_of,
    shown,
)
from tests.worker.random_flux import RandomFlux
from worker.engine import DiffusersEngine
from worker.engine_types import AdapterFile, Drawing, Engine
from worker.libraries import FluxPipeline
from worker.load import load_pipeline
from worker.reference import max_difference


@pytest.fixture(scope="module")
def fresh(tiny: RandomFlux, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Fresh]:
    return by_fresh_processes(tiny, tmp_path_factory.mktemp("fresh"))


def file_with(tmp_path: Path, engine: DiffusersEngine, gain: float, scale: float) -> AdapterFile:
    return adapter(write(tmp_path / "made.safetensors", weights(engine, gain)), scale)


def weights(engine: DiffusersEngine, gain: float = 0.5) -> dict[str, torch.Tensor]:
    return tensors_of({QUERY: Part(4)}, shapes_of(engine), gain=gain)


def test_it_is_an_engine(engine: DiffusersEngine) -> None:
    as_engine: Engine = engine
    as_engine.warm()
    assert "float32" in as_engine.recipe
    assert {"torch", "diffusers", "peft"} <= set(as_engine.library_versions)


SEQUENCES = [
    ["none", "ember", "none"],
    ["ember", "glacier", "ember"],
    ["violet", "moss", "violet"],
    ["ember", "none", "ember"],
    ["ember", "ember weak", "none", "ember weak"],
    ["moss", "two", "glacier", "two", "ember back", "ember off", "none"],
]


@pytest.mark.parametrize("cases", SEQUENCES, ids=" > ".join)
def test_each_image_is_that_of_a_fresh_process_whatever_ran_before(
    cases: list[str], engine: DiffusersEngine, tiny: RandomFlux, fresh: dict[str, Fresh]
) -> None:
    for case in cases:
        report = apply(engine, files_of(case, tiny.adapters))
        assert report.fingerprint == fresh[case].fingerprint
        assert np.array_equal(shown(engine), fresh[case].pixels), case


def test_the_cases_differ_from_each_other(fresh: dict[str, Fresh]) -> None:
    differing = [case for case in CASES if case != "ember off"]
    for index, one in enumerate(differing):
        for other in differing[index + 1 :]:
            assert max_difference(fresh[one].pixels, fresh[other].pixels) > 20, (one, other)
            assert fresh[one].fingerprint != fresh[other].fingerprint


@pytest.mark.parametrize("case", CASES)
def test_equals_diffusers_own_loader(
    case: str, fresh: dict[str, Fresh], entry: BaseModelEntry, tiny: RandomFlux
) -> None:
    expected = by_diffusers(case, entry, tiny.adapters)
    if case in EXACT:
        assert np.array_equal(fresh[case].pixels, expected)
    else:
        assert max_difference(fresh[case].pixels, expected) <= 3


@pytest.mark.parametrize(("width", "height"), [(128, 128), (32, 256), (80, 48)])
def test_without_adapters_it_is_the_plain_pipeline(
    width: int, height: int, engine: DiffusersEngine, entry: BaseModelEntry, tiny: RandomFlux
) -> None:
    apply(engine, files_of("moss", tiny.adapters))
    apply(engine, [])
    plain = FluxPipeline.from_pretrained(tiny.pipeline_folder)
    plain.set_progress_bar_config(disable=True)
    image = plain(
        prompt="a lighthouse at dawn",
        width=width,
        height=height,
        num_inference_steps=3,
        guidance_scale=2.0,
        generator=torch.Generator().manual_seed(11),
        max_sequence_length=entry.sampling.max_prompt_tokens,
    ).images[0]
    drawing = Drawing("a lighthouse at dawn", None, width, height, 3, 2.0, 11)
    assert np.array_equal(shown(engine, drawing), np.asarray(image))


def test_order_within_a_request_changes_nothing(
    engine: DiffusersEngine, tiny: RandomFlux, fresh: dict[str, Fresh]
) -> None:
    files = files_of("two", tiny.adapters)
    report = apply(engine, files[::-1])
    assert report.fingerprint == fresh["two"].fingerprint
    assert [(one.source, one.scale) for one in report.applied] == [("glacier", 0.5), ("ember", 1.0)]
    assert np.array_equal(shown(engine), fresh["two"].pixels)


def test_zero_and_minus_zero_are_one_strength(
    engine: DiffusersEngine, tiny: RandomFlux, fresh: dict[str, Fresh]
) -> None:
    for scale in (0.0, -0.0, 0.0):
        apply(engine, [adapter(tiny.adapters["ember"], scale)])
        assert np.array_equal(shown(engine), fresh["ember off"].pixels)
        apply(engine, files_of("moss", tiny.adapters))


def test_what_was_applied_is_reported(engine: DiffusersEngine, tiny: RandomFlux) -> None:
    apply(engine, [])
    file = replace(adapter(tiny.adapters["violet"], 0.5), revision="r1")
    report = apply(engine, [file])
    assert report.changed
    (one,) = report.applied
    assert (one.source, one.revision, one.sha256, one.scale) == ("violet", "r1", file.sha256, 0.5)
    assert (one.rank, one.layers_applied, one.text_encoder_layers) == (6, 10, 0)
    again = apply(engine, [file])
    assert not again.changed
    assert again.fingerprint == report.fingerprint


def test_a_bad_file_fails_alone(
    engine: DiffusersEngine, tiny: RandomFlux, fresh: dict[str, Fresh], tmp_path: Path
) -> None:
    apply(engine, files_of("ember", tiny.adapters))
    whole = tiny.adapters["moss"].read_bytes()
    bad: dict[str, tuple[bytes, type[AdapterError]]] = {
        "half": (whole[: len(whole) // 2], AdapterUnreadable),
        "empty": (b"", AdapterUnreadable),
        "page": (b"<!doctype html><title>404</title>", AdapterUnreadable),
        "nulls": (whole + bytes(16), AdapterUnreadable),
    }
    for name, (content, error) in bad.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(error, match=name) as caught:
            engine.prepare([*files_of("ember", tiny.adapters), adapter(tmp_path / name)])
        assert caught.value.field == "adapters"
    assert np.array_equal(shown(engine), fresh["ember"].pixels)
    apply(engine, files_of("glacier", tiny.adapters))
    assert np.array_equal(shown(engine), fresh["glacier"].pixels)


def test_an_adapter_for_another_base_is_refused(engine: DiffusersEngine, tmp_path: Path) -> None:
    tensors = {key: value.repeat(1, 2) for key, value in weights(engine).items() if "lora_A" in key}
    tensors |= {key: value.repeat(2, 1) for key, value in weights(engine).items() if "lora_B" in key}
    with pytest.raises(AdapterMismatch, match="128 inputs and 128 outputs"):
        engine.prepare([adapter(write(tmp_path / "wide.safetensors", tensors))])


def test_a_control_adapter_leaves_the_base_model_alone(
    engine: DiffusersEngine, fresh: dict[str, Fresh], tmp_path: Path
) -> None:
    tensors = tensors_of({"x_embedder": Part(4)}, shapes_of(engine))
    key = "transformer.x_embedder.lora_A.weight"
    tensors[key] = tensors[key].repeat(1, 2)
    with pytest.raises(AdapterError, match="control adapter"):
        engine.prepare([adapter(write(tmp_path / "control.safetensors", tensors))])
    apply(engine, [])
    assert np.array_equal(shown(engine), fresh["none"].pixels)


def test_ranks_that_sum_too_high_are_refused_before_anything_is_written(
    engine: DiffusersEngine, tiny: RandomFlux, fresh: dict[str, Fresh]
) -> None:
    apply(engine, files_of("glacier", tiny.adapters))
    with pytest.raises(AdapterRankTooLarge, match=r"rank 20.*16"):
        engine.prepare([adapter(tiny.adapters["moss"]), adapter(tiny.adapters["ember"])])
    assert np.array_equal(shown(engine), fresh["glacier"].pixels)


def test_a_strength_that_overflows_is_refused_before_anything_is_written(
    engine: DiffusersEngine, tiny: RandomFlux, fresh: dict[str, Fresh], tmp_path: Path
) -> None:
    apply(engine, files_of("glacier", tiny.adapters))
    strong = engine.prepare([file_with(tmp_path, engine, gain=5e37, scale=10.0)])
    with pytest.raises(AdapterNotFinite, match="strength"):
        engine.swap(strong)
    assert np.array_equal(shown(engine), fresh["glacier"].pixels)


def test_an_adapter_with_nan_then_a_good_one(
    engine: DiffusersEngine, tiny: RandomFlux, fresh: dict[str, Fresh], tmp_path: Path
) -> None:
    tensors = tensors_of({QUERY: Part(4)}, shapes_of(engine))
    tensors[f"transformer.{QUERY}.lora_B.weight"][3, 2] = math.nan
    with pytest.raises(AdapterNotFinite):
        engine.prepare([adapter(write(tmp_path / "nan.safetensors", tensors))])
    apply(engine, files_of("ember", tiny.adapters))
    assert np.array_equal(shown(engine), fresh["ember"].pixels)


def test_a_picture_that_is_not_finite_fails_and_darkens_nothing(
    engine: DiffusersEngine, fresh: dict[str, Fresh], tmp_path: Path
) -> None:
    layer = "single_transformer_blocks.2.proj_out"
    tensors = tensors_of({layer: Part(4)}, shapes_of(engine), gain=1e25)
    apply(engine, [adapter(write(tmp_path / "huge.safetensors", tensors))])
    with pytest.raises(GenerationFailed, match="not finite"):
        shown(engine)
    apply(engine, [])
    assert np.array_equal(shown(engine), fresh["none"].pixels)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_one_value_that_is_not_finite_is_no_white_or_black_point(
    value: float, engine: DiffusersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = engine._family.decode

    def spoilt(*given: Any) -> torch.Tensor:
        image: torch.Tensor = whole(*given)
        image[0, 0, 3, 5] = value
        return image

    monkeypatch.setattr(engine, "_family", replace(engine._family, decode=spoilt))
    apply(engine, [])
    with pytest.raises(GenerationFailed, match="decoded image is not finite"):
        shown(engine)


@pytest.mark.parametrize("stop", [KeyboardInterrupt("stop"), ValueError("stop"), RuntimeError("stop")])
def test_a_drawing_that_was_stopped_leaves_nothing_behind(
    stop: BaseException, engine: DiffusersEngine, tiny: RandomFlux, fresh: dict[str, Fresh]
) -> None:
    apply(engine, files_of("ember", tiny.adapters))
    seen = []

    def on_step(done: int, steps: int) -> None:
        seen.append((done, steps))
        if done == 2:
            raise stop

    with pytest.raises(type(stop)) as caught:
        engine.draw(DRAWING, on_step)
    assert caught.value is stop
    assert seen == [(1, 4), (2, 4)]
    assert np.array_equal(shown(engine), fresh["ember"].pixels)


def test_seeds_are_drawn_alone(engine: DiffusersEngine, fresh: dict[str, Fresh]) -> None:
    apply(engine, [])
    both = [shown(engine, replace(DRAWING, seed=DRAWING.seed + i)) for i in range(2)]
    assert np.array_equal(both[0], fresh["none"].pixels)
    assert np.array_equal(shown(engine, replace(DRAWING, seed=DRAWING.seed + 1)), both[1])
    assert not np.array_equal(both[0], both[1])


def test_progress_timings_and_silence(engine: DiffusersEngine, capfd: pytest.CaptureFixture[str]) -> None:
    apply(engine, [])
    seen: list[tuple[int, int]] = []
    long = replace(DRAWING, prompt="fox " * 100, negative_prompt="rain")
    image = engine.draw(long, lambda done, steps: seen.append((done, steps)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert set(image.timings_ms) == {"encode_prompt", "denoise", "decode"}
    assert all(spent > 0 for spent in image.timings_ms.values())
    assert image.pixels.dtype == np.uint8
    assert len(image.warnings) == 3
    assert "64 of its 101 tokens" in image.warnings[0]
    assert "CLIP" in image.warnings[1]
    assert "negative prompt has no effect" in image.warnings[2]
    assert engine.draw(DRAWING, lambda done, steps: None).warnings == ()
    assert capfd.readouterr() == ("", "")


def test_sizes_that_the_pipeline_would_round_are_not_drawn(engine: DiffusersEngine) -> None:
    apply(engine, [])
    with pytest.raises(GenerationFailed, match="instead of"):
        shown(engine, replace(DRAWING, width=72))


def test_a_warm_adapter_needs_no_file(
    engine: DiffusersEngine, tiny: RandomFlux, fresh: dict[str, Fresh], tmp_path: Path
) -> None:
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(tiny.adapters["ember"].read_bytes())
    file = adapter(copy)
    engine.prepare([file])
    copy.unlink()
    apply(engine, [file])
    assert np.array_equal(shown(engine), fresh["ember"].pixels)


def test_a_base_model_that_is_not_there(entry: BaseModelEntry, tmp_path: Path) -> None:
    for source in (str(tmp_path / "absent"), "builtin:other"):
        with pytest.raises(Misconfigured):
            load_pipeline(entry.model_copy(update={"source": source}))
    (tmp_path / "model_index.json").write_text("{}")
    with pytest.raises(Misconfigured):
        load_pipeline(entry.model_copy(update={"source": str(tmp_path)}))
