"""Draws jobs with the engine, each in a process of its own that has drawn nothing before.

    python -m tests.worker.fresh CATALOGUE JOBS.json OUT_FOLDER

The model is loaded once; then each job runs in a fork of that untouched state.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from shared.catalogue import read_catalogue
from tests.worker.random_flux import NAME
from worker.engine import DiffusersEngine
from worker.engine_types import AdapterFile, Drawing


def main(catalogue_file: Path, jobs: list[dict[str, Any]], out: Path) -> int:
    entry = read_catalogue(catalogue_file).get(NAME)
    engine = DiffusersEngine.load(entry, threads=1)
    for number, job in enumerate(jobs):
        child = os.fork()
        if child == 0:
            try:
                _draw(engine, job, out / f"{number}.npy")
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            return 1
    return 0


def _draw(engine: DiffusersEngine, job: dict[str, Any], out: Path) -> None:
    files = [AdapterFile(a["source"], Path(a["path"]), a["sha256"], a["scale"]) for a in job["adapters"]]
    report = engine.swap(engine.prepare(files))
    image = engine.draw(Drawing(**job["drawing"]), lambda done, steps: None)
    np.save(out, image.pixels)
    out.with_suffix(".txt").write_text(report.fingerprint)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()), Path(sys.argv[3])))
