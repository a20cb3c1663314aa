"""Every family: whatever ran before, a job's picture is that of a fresh process, and of diffusers' own loader."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from shared.catalogue import BaseModelEntry
from shared.errors import AdapterError, AdapterRankTooLarge
from shared.families.family import component_of
from tests.worker.adapter_files import adapter, write
from tests.worker.cases import Fresh, apply
from tests.worker.family_cases import (
    CASES,
    DRAWING,
    EXACT,
    by_fresh_processes,
    files_for,
    files_of,
    shown,
)
from tests.worker.small_pipelines import BUILDERS, TIERS, entry_of
from worker.engine import DiffusersEngine
from worker.engine_types import DrawnImage
from worker.reference import draw_reference, max_difference


@dataclass(frozen=True)
class Served:
    entry: BaseModelEntry
    engine: DiffusersEngine
    files: dict[str, Path]
    fresh: dict[str, Fresh]


@pytest.fixture(scope="module", params=BUILDERS)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Served:
    root = tmp_path_factory.mktemp("family")
    entry = entry_of(request.param, root)
    engine = DiffusersEngine.load(entry, threads=1)
    files = files_for(engine, root)
    return Served(entry, engine, files, by_fresh_processes(engine, files, root))


SEQUENCES = [
    ["small", "other", "small"],
    ["small", "large", "small"],
    ["text", "small", "text", "none"],
    ["large", "none", "convolutions", "none"],
    ["small weak", "none", "four", "small weak", "small"],
]


@pytest.mark.parametrize("cases", SEQUENCES, ids=" > ".join)
def test_each_image_is_that_of_a_fresh_process_whatever_ran_before(cases: list[str], served: Served) -> None:
    for case in cases:
        report = apply(served.engine, files_of(case, served.files))
        assert report.fingerprint == served.fresh[case].fingerprint
        assert np.array_equal(shown(served.engine), served.fresh[case].pixels), case


def test_the_cases_differ_from_each_other(served: Served) -> None:
    cases = list(CASES)
    for index, one in enumerate(cases):
        for other in cases[index + 1 :]:
            assert max_difference(served.fresh[one].pixels, served.fresh[other].pixels) > 3, (one, other)
            assert served.fresh[one].fingerprint != served.fresh[other].fingerprint


@pytest.mark.parametrize("case", CASES)
def test_equals_diffusers_own_loader(case: str, served: Served, tmp_path: Path) -> None:
    adapters = [{"path": str(file.path), "scale": file.scale} for file in files_of(case, served.files)]
    expected = draw_reference(served.entry, {**asdict(DRAWING), "adapters": adapters})
    if case in EXACT:
        assert np.array_equal(served.fresh[case].pixels, expected)
    else:
        assert max_difference(served.fresh[case].pixels, expected) <= 3


def test_what_was_applied_is_reported(served: Served) -> None:
    (large,) = apply(served.engine, files_of("large", served.files)).applied
    layers = served.engine.layers
    assert (large.rank, large.layers_applied) == (16, len(layers))
    assert large.text_encoder_layers == sum(component_of(name).startswith("text") for name in layers) > 0


def test_a_bad_file_then_a_good_one(served: Served, tmp_path: Path) -> None:
    apply(served.engine, files_of("small", served.files))
    layer = next(name for name in served.engine.layers if name.endswith("to_q"))
    (tmp_path / "half").write_bytes(served.files["large"].read_bytes()[:5000])
    wide = {f"{layer}.lora_A.weight": torch.ones(4, 999), f"{layer}.lora_B.weight": torch.ones(999, 4)}
    for path in (tmp_path / "half", write(tmp_path / "wide", wide)):
        with pytest.raises(AdapterError, match=path.name):
            served.engine.prepare([adapter(path)])
    for case in ("small", "other"):
        apply(served.engine, files_of(case, served.files))
        assert np.array_equal(shown(served.engine), served.fresh[case].pixels)


def test_an_adapter_of_another_family_is_refused(served: Served, tmp_path: Path) -> None:
    foreign = (
        "unet.down_blocks.9.attentions.9" if served.entry.family == "flux.1" else "transformer.transformer_blocks.9"
    )
    tensors = {f"{foreign}.attn.to_q.lora_{half}.weight": torch.ones(4, 4) for half in "AB"}
    with pytest.raises(AdapterError):
        served.engine.prepare([adapter(write(tmp_path / "foreign.safetensors", tensors))])


def test_ranks_above_the_top_tier_are_refused_alone_and_in_sum(served: Served, tmp_path: Path) -> None:
    with pytest.raises(AdapterRankTooLarge, match=rf"rank 20.*{TIERS[-1]}"):
        served.engine.prepare([adapter(served.files[name]) for name in ("large", "small")])
    layer, shape = next((name, each) for name, each in served.engine.layers.items() if name.endswith("to_q"))
    high = {
        f"{layer}.lora_A.weight": torch.ones(17, shape.inputs),
        f"{layer}.lora_B.weight": torch.ones(shape.outputs, 17),
    }
    with pytest.raises(AdapterRankTooLarge, match="rank 17"):
        served.engine.prepare([adapter(write(tmp_path / "high.safetensors", high))])


def test_a_slot_without_text_encoders_refuses_their_keys(
    served: Served, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    slot = served.entry.slot.model_copy(update={"text_encoders": False})
    engine = DiffusersEngine.load(served.entry.model_copy(update={"slot": slot}), threads=1)
    with pytest.raises(AdapterError, match="changes the text encoders"):
        engine.prepare(files_of("text", served.files))
    apply(engine, files_of("small", served.files))
    assert np.array_equal(shown(engine), served.fresh["small"].pixels)


def test_guidance_and_the_negative_prompt_are_those_of_the_pipeline(served: Served, tmp_path: Path) -> None:
    apply(served.engine, [])
    for changes in ({"guidance_scale": 1.0}, {"negative_prompt": "rain"}, {"width": 96, "height": 32}):
        job = {**asdict(DRAWING), **changes}
        drawing = type(DRAWING)(**job)
        assert np.array_equal(shown(served.engine, drawing), draw_reference(served.entry, job))


def test_stages_in_threads_of_their_own_make_the_same_pictures(served: Served) -> None:
    cases = ["small", "text", "large", "none", "four", "text"]
    engine = served.engine
    with ThreadPoolExecutor(1) as decoder, ThreadPoolExecutor(1) as encoder:
        found: list[Future[DrawnImage]] = []
        for case, following in zip(cases, [*cases[1:], "none"], strict=True):
            apply(engine, files_of(case, served.files))
            ahead = encoder.submit(engine.encode_ahead, DRAWING, engine.prepare(files_of(following, served.files)))
            found.append(decoder.submit(engine.decode, engine.denoise(DRAWING, lambda done, steps: None)))
            ahead.result()
        for case, picture in zip(cases, found, strict=True):
            assert np.array_equal(picture.result().pixels, served.fresh[case].pixels), case


def test_a_prompt_is_encoded_once_for_the_same_text_encoders(served: Served) -> None:
    engine, drawing = served.engine, replace(DRAWING, prompt="a lighthouse")

    def found_encoded() -> bool:
        hits, _ = engine.prompts
        shown(engine, drawing)
        return engine.prompts[0] > hits

    apply(engine, files_of("small", served.files))
    text = engine.prepare(files_of("text", served.files))
    engine.encode_ahead(drawing, text)
    assert not found_encoded()
    assert found_encoded()
    apply(engine, files_of("other", served.files))
    assert found_encoded()
    engine.swap(text)
    assert not found_encoded()
    weaker = replace(files_of("text", served.files)[0], scale=0.5)
    apply(engine, [weaker])
    engine.encode_ahead(drawing, engine.prepare([weaker]))
    assert found_encoded()
    drawing = replace(drawing, negative_prompt="rain")
    assert found_encoded() == (not served.entry.sampling.negative_prompt)
