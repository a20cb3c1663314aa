"""A compiled denoiser: after the warm-up nothing compiles, and every picture is that of a fresh process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from shared.catalogue import BaseModelEntry, Catalogue
from shared.errors import SlotCorrupt
from tests.worker.cases import Fresh, apply
from tests.worker.family_cases import CASES, DRAWING, by_fresh_processes, files_for, files_of, shown
from tests.worker.small_pipelines import entry_of
from worker.compiled import State, compilations, states
from worker.engine import DiffusersEngine
from worker.reference import draw_reference, max_difference

OTHER_SIZE = replace(DRAWING, width=32, height=64)


@dataclass(frozen=True)
class Served:
    entry: BaseModelEntry
    engine: DiffusersEngine
    files: dict[str, Path]
    fresh: dict[str, Fresh]


def compiled_entry(family: str, root: Path, backend: str, **compiling: Any) -> BaseModelEntry:
    sizes = [(DRAWING.width, DRAWING.height)]
    return entry_of(
        family,
        root,
        recipe="compiled",
        recipes={"compiled": {"compile": "full", "sizes": sizes, "backend": backend} | compiling},
        slot={"rank_tiers": (8, 16), "text_encoders": True},
    )


def serve(entry: BaseModelEntry, root: Path) -> Served:
    engine = DiffusersEngine.load(entry, threads=1)
    engine.warm()
    files = files_for(engine, root)
    return Served(entry, engine, files, by_fresh_processes(engine, files, root))


@pytest.fixture(scope="module")
def flux(tmp_path_factory: pytest.TempPathFactory) -> Served:
    root = tmp_path_factory.mktemp("compiled")
    sizes = [(DRAWING.width, DRAWING.height), (OTHER_SIZE.width, OTHER_SIZE.height)]
    # Dynamo's own part alone decides about recompiles, and it needs no C++ compiler.
    return serve(compiled_entry("flux.1", root, "eager", sizes=sizes), root)


@pytest.fixture
def failing_on_recompile() -> Iterator[None]:
    with torch.compiler.set_stance("fail_on_recompile"):
        yield


SEQUENCE = [
    "small",
    "small weak",
    "none",
    "small weak",
    "large",
    "small",
    "text",
    "four",
    "convolutions",
    "none",
    "four",
]


def check_sequence(served: Served) -> None:
    for case in SEQUENCE:
        report = apply(served.engine, files_of(case, served.files))
        assert report.fingerprint == served.fresh[case].fingerprint
        assert np.array_equal(shown(served.engine), served.fresh[case].pixels), case
    assert served.engine.recompiles == 0


@pytest.mark.usefixtures("failing_on_recompile")
def test_nothing_compiles_after_the_warm_up(flux: Served) -> None:
    check_sequence(flux)


@pytest.mark.usefixtures("failing_on_recompile")
def test_nor_for_another_warm_size_or_one_that_is_drawn_uncompiled(flux: Served) -> None:
    uncompiled = replace(DRAWING, width=96)
    apply(flux.engine, files_of("small", flux.files))
    before = [shown(flux.engine, drawing) for drawing in (OTHER_SIZE, uncompiled)]
    for case in ("large", "none", "small"):
        apply(flux.engine, files_of(case, flux.files))
        after = [shown(flux.engine, drawing) for drawing in (OTHER_SIZE, uncompiled)]
    assert all(map(np.array_equal, before, after))
    assert flux.engine.recompiles == 0


@pytest.mark.parametrize("case", CASES)
def test_equals_diffusers_own_loader_within_a_tolerance(case: str, flux: Served, tmp_path: Path) -> None:
    adapters = [{"path": str(file.path), "scale": file.scale} for file in files_of(case, flux.files)]
    expected = draw_reference(flux.entry, {**vars(DRAWING), "adapters": adapters})
    assert max_difference(flux.fresh[case].pixels, expected) <= 3


def test_an_adapter_runs_at_the_smallest_tier_that_takes_it(flux: Served) -> None:
    tiers = {}
    for case in ("none", "text", "small", "convolutions", "large", "four"):
        apply(flux.engine, files_of(case, flux.files))
        ranks = dict(flux.engine._slot.require_known().arrangement.ranks)
        tiers[case] = {rank for name, rank in ranks.items() if name.startswith("transformer.")}
    assert tiers == {"none": set(), "text": set(), "small": {8}, "convolutions": {8}, "large": {16}, "four": {8}}


def test_what_lies_beyond_the_rank_takes_part_so_it_is_checked(flux: Served) -> None:
    apply(flux.engine, files_of("small", flux.files))
    name = next(name for name in flux.engine.layers if name.endswith("to_q"))
    flux.engine._slot.require_known().arrangement.views[name][0][7, 3] = 1e-30
    with pytest.raises(SlotCorrupt, match=name):
        apply(flux.engine, files_of("small", flux.files))
    apply(flux.engine, files_of("small", flux.files))
    assert np.array_equal(shown(flux.engine), flux.fresh["small"].pixels)


def test_a_recompile_is_counted(flux: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    strange = replace(DRAWING, width=112)
    monkeypatch.setattr(flux.engine, "_states", [*flux.engine._states, State(112, DRAWING.height, 3.5, None)])
    before = flux.engine.recompiles
    apply(flux.engine, [])
    shown(flux.engine, strange)
    assert flux.engine.recompiles == before + 1
    # For the tests that follow.
    monkeypatch.undo()
    flux.engine._compilations = compilations()


@pytest.mark.parametrize("family", ["sdxl", "sd1.5"])
def test_guidance_in_two_passes_is_warm_for_one_and_for_two(family: str, tmp_path: Path) -> None:
    entry = compiled_entry(family, tmp_path, "eager")
    entry = entry.model_copy(update={"slot": entry.slot.model_copy(update={"rank_tiers": (16,)})})
    served = serve(entry, tmp_path)
    with torch.compiler.set_stance("fail_on_recompile"):
        check_sequence(served)
        shown(served.engine, replace(DRAWING, guidance_scale=1.0))
        shown(served.engine, replace(DRAWING, guidance_scale=0.0, negative_prompt="rain"))
    assert served.engine.recompiles == 0


@pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))),
    reason="torch.compile needs a C++ compiler on a CPU, without which Hotslot works as well: apt install g++",
)
# Torch's own, on importing its compiler.
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")
def test_with_the_real_compiler(tmp_path: Path) -> None:
    served = serve(compiled_entry("flux.1", tmp_path, "inductor"), tmp_path)
    with torch.compiler.set_stance("fail_on_recompile"):
        check_sequence(served)


def test_the_states_are_all_that_decides_about_the_graph(tmp_path: Path) -> None:
    entry = compiled_entry("flux.1", tmp_path, "eager", sizes=[(64, 48), (32, 32)])
    assert len(states(entry, guided_twice=False)) == 2 * 3
    assert len(states(entry, guided_twice=True)) == 2 * 2 * 3
    assert {state.rank for state in states(entry, guided_twice=True)} == {None, 8, 16}
    assert states(entry_of("flux.1", tmp_path), guided_twice=False) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"slot": {"rank_tiers": [16, 8]}}, "must ascend"),
        ({"slot": {"rank_tiers": [8, 8]}}, "must ascend"),
        ({"slot": {"rank_tiers": [0]}}, "greater than 0"),
    ],
)
def test_a_catalogue_that_contradicts_itself_is_refused(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    whole = entry_of("flux.1", tmp_path).model_dump() | changes
    with pytest.raises(ValueError, match=said):
        Catalogue.model_validate({"base_models": {"small": whole}})
