"""A worker that can take large adapters computes no more for small ones, and nothing for none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch.utils.flop_counter import FlopCounterMode

from tests.worker.cases import apply
from tests.worker.family_cases import DRAWING, files_for, files_of, shown
from tests.worker.small_pipelines import BUILDERS, entry_of
from worker.draw import draw
from worker.engine import DiffusersEngine
from worker.families.table import TORCH_FAMILIES
from worker.load import load_pipeline

EAGER: dict[str, Any] = {}
COMPILED: dict[str, Any] = {
    "recipes": {"compiled": {"compile": "full", "sizes": [[DRAWING.width, DRAWING.height]], "backend": "eager"}}
}


def counted(run: Any) -> int:
    with FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())


def flops(engine: DiffusersEngine, files: dict[str, Path], case: str) -> int:
    apply(engine, files_of(case, files))
    return counted(lambda: shown(engine))


@pytest.mark.parametrize("recipe", [EAGER, COMPILED], ids=["eager", "compiled"])
@pytest.mark.parametrize("family", BUILDERS)
def test_a_small_adapter_costs_what_it_costs_where_only_small_ones_are_taken(
    family: str, recipe: dict[str, Any], tmp_path: Path
) -> None:
    plain, _ = load_pipeline(entry_of(family, tmp_path))
    entry = entry_of(family, tmp_path)
    without = counted(lambda: draw(plain, TORCH_FAMILIES[family], DRAWING, lambda done, steps: None, entry.sampling))
    found = {}
    for tiers in ((16,), (16, 64, 128)):
        slot = {"rank_tiers": tiers, "text_encoders": True}
        engine = DiffusersEngine.load(entry_of(family, tmp_path, slot=slot, **recipe), threads=1, prompt_bytes=0)
        if recipe:
            engine.warm()
        files = files_for(engine, tmp_path)
        found[tiers] = {case: flops(engine, files, case) for case in ("none", "small", "large")}
    small_only, all_sizes = found.values()
    assert small_only == all_sizes
    assert without == all_sizes["none"] < all_sizes["small"] < all_sizes["large"]
