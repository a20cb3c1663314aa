"""A thousand mixed jobs on a compiled model: nothing compiles after the warm-up, and every picture is the right one.

    python -m bench.recompiles [--jobs 1000] [--backend inductor]

Adapters of every tier, several strengths, combinations, jobs without any, and two sizes. Each distinct combination is
drawn first by a process of its own that has drawn nothing else since the warm-up; every job must give the very same
bits. Prints one JSON object last: {jobs, combinations, recompiles, mismatches, warmup_s, seconds}.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from bench.flux_blocks import random_adapter
from shared.adapter_files import sha256_of
from shared.catalogue import read_catalogue
from shared.recipe import Recipe
from worker.engine import DiffusersEngine
from worker.engine_types import AdapterFile, Drawing

TIERS = (4, 8, 16)
SIZES = ((128, 128), (96, 64))
STEPS = 2
RANKS = {"a": 2, "b": 4, "c": 4, "d": 7, "e": 8, "f": 16}
SCALES = (1.0, 0.3, -0.5)
PAIRS = (("a", "b"), ("b", "c"), ("d", "a"), ("e", "b"))


@dataclass(frozen=True)
class Combination:
    """What decides about a picture here."""

    adapters: tuple[tuple[str, float], ...]
    size: tuple[int, int]


def combinations() -> list[Combination]:
    """All that the jobs are drawn from."""
    singles = [((name, scale),) for name in RANKS for scale in SCALES]
    pairs = [tuple((name, 0.7) for name in pair) for pair in PAIRS]
    return [Combination(adapters, size) for adapters in [(), *singles, *pairs] for size in SIZES]


def write_adapters(engine: DiffusersEngine, folder: Path) -> dict[str, tuple[Path, str]]:
    """Path and hash of each adapter's file."""
    found = {}
    for seed, (name, rank) in enumerate(RANKS.items()):
        path = folder / f"{name}.safetensors"
        targets = (".attn.",) if seed % 2 else ("",)
        save_file(random_adapter(engine.layers, targets, rank, seed), path)
        found[name] = (path, sha256_of(path))
    return found


def draw(engine: DiffusersEngine, wanted: Combination, files: dict[str, tuple[Path, str]]) -> str:
    """The picture's hash."""
    adapters = [AdapterFile(name, *files[name], scale) for name, scale in wanted.adapters]
    engine.swap(engine.prepare(adapters))
    drawing = Drawing("a red fox in the snow", None, *wanted.size, STEPS, 3.5, 7)
    return hashlib.sha256(engine.draw(drawing, lambda done, steps: None).pixels.tobytes()).hexdigest()


def drawn_first(engine: DiffusersEngine, wanted: Combination, files: dict[str, tuple[Path, str]]) -> str:
    """The same by a fork of this process, whose slot has held nothing yet but the warm-up's zeros."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(writing, draw(engine, wanted, files).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as answer:
        said = answer.read()
    if os.waitpid(child, 0)[1] != 0:
        raise RuntimeError(f"the reference of {wanted} failed")
    return said


def run(jobs: int, backend: Any) -> dict[str, object]:
    """Warm up, draw the references, then the jobs in random order."""
    entry = read_catalogue().get("tiny-flux")
    slot = entry.slot.model_copy(update={"rank_tiers": TIERS})
    recipe = Recipe(compile="full", sizes=SIZES, backend=backend)
    entry = entry.model_copy(update={"recipe": "compiled", "recipes": {"compiled": recipe}, "slot": slot})
    engine = DiffusersEngine.load(entry)
    started_s = time.monotonic()
    engine.warm()
    warmup_s = time.monotonic() - started_s
    print(f"warm after {warmup_s:.1f} s")
    with tempfile.TemporaryDirectory() as folder:
        files = write_adapters(engine, Path(folder))
        known = combinations()
        expected = {wanted: drawn_first(engine, wanted, files) for wanted in known}
        print(f"{len(known)} combinations drawn by processes of their own, {len(set(expected.values()))} pictures")
        chosen = random.Random(1).choices(known, k=jobs)
        started_s = time.monotonic()
        mismatches = sum(draw(engine, wanted, files) != expected[wanted] for wanted in chosen)
    return {
        "jobs": jobs,
        "combinations": len(set(chosen)),
        "pictures": len(set(expected.values())),
        "recompiles": engine.recompiles,
        "mismatches": mismatches,
        "warmup_s": round(warmup_s, 1),
        "seconds": round(time.monotonic() - started_s, 1),
        "backend": backend,
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bench.recompiles", description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--backend", choices=("inductor", "aot_eager", "eager"), default="inductor")
    options = parser.parse_args()
    # A fork has but one thread.
    torch.set_num_threads(1)
    print(json.dumps(run(options.jobs, options.backend)))


if __name__ == "__main__":
    main()
