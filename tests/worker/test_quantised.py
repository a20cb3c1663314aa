"""A base model whose weights are quantised: the slot, its swaps, and no recompiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.worker.cases import apply
from tests.worker.family_cases import DRAWING, by_fresh_processes, files_for, files_of, shown
from tests.worker.small_pipelines import entry_of
from worker import assemble
from worker.engine import DiffusersEngine
from worker.libraries import hushed
from worker.load import load_pipeline

with hushed():
    from torchao.quantization import Float8WeightOnlyConfig, Int8WeightOnlyConfig, quantize_


@pytest.mark.parametrize("config", [Int8WeightOnlyConfig, Float8WeightOnlyConfig])
def test_swaps_on_quantised_weights(config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = entry_of(
        "flux.1",
        tmp_path,
        recipe="compiled",
        recipes={"compiled": {"compile": "full", "sizes": [[DRAWING.width, DRAWING.height]], "backend": "eager"}},
        slot={"rank_tiers": (8, 16), "text_encoders": True},
    )
    pipeline, revision = load_pipeline(entry)
    whole = pipeline.transformer.proj_out.weight
    with hushed():
        quantize_(pipeline.transformer, config())
    assert type(pipeline.transformer.proj_out.weight) is not type(whole)
    monkeypatch.setattr(assemble, "read_pipeline", lambda entry: (pipeline, revision))
    engine = DiffusersEngine.load(entry, threads=1)
    engine.warm()
    files = files_for(engine, tmp_path)
    fresh = by_fresh_processes(engine, files, tmp_path)
    with torch.compiler.set_stance("fail_on_recompile"):
        for case in ("small", "large", "none", "small", "text", "four", "none"):
            report = apply(engine, files_of(case, files))
            assert report.fingerprint == fresh[case].fingerprint
            assert np.array_equal(shown(engine), fresh[case].pixels), case
    assert engine.recompiles == 0
    assert not np.array_equal(fresh["small"].pixels, fresh["none"].pixels)
