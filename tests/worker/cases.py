"""Named jobs on the random FLUX, drawn once by processes that drew nothing before and once by diffusers' own loader."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shared.catalogue import BaseModelEntry
from tests.worker.adapter_files import adapter
from tests.worker.random_flux import RandomFlux
from worker.engine import DiffusersEngine
from worker.engine_types import AdapterFile, Drawing, SwapReport
from worker.reference import Pixels, draw_reference

DRAWING = Drawing("a red fox in the snow", None, 96, 64, 4, 3.5, 7)

CASES: dict[str, list[tuple[str, float]]] = {
    "none": [],
    "ember": [("ember", 1.0)],
    "ember half": [("ember", 0.5)],
    "ember back": [("ember", -1.0)],
    "ember weak": [("ember", 0.3)],
    "ember off": [("ember", 0.0)],
    "moss": [("moss", 1.0)],
    "glacier": [("glacier", 1.0)],
    "violet": [("violet", 1.0)],
    "two": [("ember", 1.0), ("glacier", 0.5)],
}

EXACT = ("none", "ember", "ember half", "ember back", "ember off", "moss")
"""One adapter at most, whose strength times alpha / rank is a power of two (or nothing) in every layer."""


@dataclass(frozen=True)
class Fresh:
    """What a fresh process made of a case."""

    pixels: Pixels
    fingerprint: str


def files_of(case: str, adapters: dict[str, Path]) -> list[AdapterFile]:
    return [adapter(adapters[name], scale) for name, scale in CASES[case]]


def apply(engine: DiffusersEngine, files: list[AdapterFile]) -> SwapReport:
    return engine.swap(engine.prepare(files))


def shown(engine: DiffusersEngine, drawing: Drawing = DRAWING) -> Pixels:
    return engine.draw(drawing, lambda done, steps: None).pixels


def by_fresh_processes(tiny: RandomFlux, folder: Path) -> dict[str, Fresh]:
    """Every case, each in a process of its own."""
    jobs = [
        {
            "adapters": [{**asdict(file), "path": str(file.path)} for file in files_of(case, tiny.adapters)],
            "drawing": asdict(DRAWING),
        }
        for case in CASES
    ]
    (folder / "jobs.json").write_text(json.dumps(jobs))
    command = [
        sys.executable,
        "-m",
        "tests.worker.fresh",
        str(tiny.catalogue_file),
        str(folder / "jobs.json"),
        str(folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr
    return {
        case: Fresh(np.load(folder / f"{number}.npy"), (folder / f"{number}.txt").read_text())
        for number, case in enumerate(CASES)
    }


def by_diffusers(case: str, entry: BaseModelEntry, adapters: dict[str, Path]) -> Pixels:
    """The case on a fresh pipeline that has loaded only this with diffusers' own loader."""
    return draw_reference(entry, reference_job(files_of(case, adapters)))


def reference_job(files: list[AdapterFile]) -> dict[str, Any]:
    """The job as ``worker.reference`` takes it."""
    job = asdict(DRAWING)
    del job["negative_prompt"]
    return {**job, "adapters": [{"path": str(file.path), "scale": file.scale} for file in files]}
