"""Compares images with those that a fresh plain diffusers pipeline makes of the same jobs, in a process of its own."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageChops

from cli.demo.outcome import Ended, Outcome
from cli.demo.plan import BASE_MODEL
from cli.environment import for_python
from cli.processes import Command, Process, Say
from shared.errors import HotslotError
from shared.job import Status

TOLERANCE = 2
"""Of 255. Folding a strength that is no power of two into the weights moves the last bits of float32."""
LOOK_S = 0.1
NAME = "reference"


@dataclass(frozen=True)
class Comparison:
    """``words``: how the image of a job (by number) compares; ``faults``: a sentence for each that does not."""

    words: Mapping[int, str]
    faults: Sequence[str]


def compare(
    outcome: Outcome,
    folder: Path,
    environment: Mapping[str, str],
    say: Say,
    *,
    bits_may_differ: bool = False,
) -> Comparison:
    """Draw one job per set of adapters and strengths anew and compare; the pictures stay in ``folder``.

    ``bits_may_differ``: no image must be bit-equal, because its worker may run on another kind of processor.
    """
    chosen = one_per_set(outcome.ended)
    if not chosen:
        return Comparison({}, ["no image is there to be compared with a fresh pipeline's"])
    try:
        pictures = draw(chosen, folder, environment, say)
    except HotslotError as error:
        return Comparison({}, [error.message])
    differences = {one.planned.number: difference(picture, one.image) for one, picture in pictures if one.image}
    exact = {one.planned.number: one.planned.exact and not bits_may_differ for one in chosen}
    words = {number: verdict(value, exact[number]) for number, value in differences.items()}
    wrong = [number for number, value in differences.items() if value > allowed(exact[number])]
    return Comparison(
        words, [f"job {number}: against a fresh pipeline its image is {words[number]}" for number in wrong]
    )


def one_per_set(ended: Iterable[Ended]) -> list[Ended]:
    """The first job with an image of each set of adapters and strengths."""
    first: dict[str, Ended] = {}
    for one in ended:
        if one.image is not None and one.job.status is Status.SUCCEEDED:
            first.setdefault(one.planned.adapter_words, one)
    return list(first.values())


def allowed(exact: bool) -> int:
    """Largest difference of one value, 0 to 255."""
    return 0 if exact else TOLERANCE


def verdict(value: int, exact: bool) -> str:
    """How an image compares, in words."""
    if value == 0:
        return "bit-equal"
    limit = allowed(exact)
    return f"{value}/255 off ({'within' if value <= limit else 'NOT within'} {limit})"


def difference(one: Path, other: Path) -> int:
    """Largest difference of any value of two pictures, 0 to 255; 255 where their sizes differ."""
    with Image.open(one) as opened, Image.open(other) as other_opened:
        first, second = opened.convert("RGB"), other_opened.convert("RGB")
    if first.size != second.size:
        return 255
    return max(ImageChops.difference(first, second).tobytes())


def draw(chosen: Sequence[Ended], folder: Path, environment: Mapping[str, str], say: Say) -> list[tuple[Ended, Path]]:
    """Draw these jobs in another process, named like the jobs' own images. Raises HotslotError."""
    jobs = folder / "jobs.json"
    jobs.write_text(json.dumps([job_of(one) for one in chosen], indent=2), encoding="utf-8")
    drawn = folder / f"{NAME}.png"
    words = ("-m", "worker.reference", "--base-model", BASE_MODEL, "--job", str(jobs), "--out", str(drawn))
    process = Process(Command(NAME, (sys.executable, "-P", *words), for_python(environment)), say)
    try:
        while (status := process.status()) is None:
            time.sleep(LOOK_S)
        process.wait(0)
    finally:
        process.kill()
    if status:
        raise HotslotError(f"the fresh pipelines could not draw: {process.last_words}")
    return [(one, _named(drawn, place, one)) for place, one in enumerate(chosen)]


def _named(drawn: Path, place: int, one: Ended) -> Path:
    return drawn.with_stem(f"{drawn.stem}-{place}").replace(drawn.with_name(one.planned.file_name))


def job_of(one: Ended) -> dict[str, Any]:
    """The job as the reference program takes it: adapters by those very bytes that it was admitted with."""
    job = one.job
    return {
        **{name: getattr(job, name) for name in ("prompt", "width", "height", "steps", "guidance_scale", "seed")},
        "adapters": [{"sha256": adapter.sha256, "scale": adapter.scale} for adapter in job.adapters],
    }
