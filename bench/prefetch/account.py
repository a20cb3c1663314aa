"""From jobs' records to the time in which nothing was drawn between them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from shared.job import Job

DRAWING = ("encode_prompt", "denoise", "decode")


@dataclass(frozen=True)
class Drawn:
    """When a job was drawn, Unix milliseconds."""

    begin_ms: float
    end_ms: float


def drawn_of(job: Job) -> Drawn:
    """From its claim on: fetch and swap, then the drawing."""
    if job.result is None or job.claimed_ms is None:
        raise ValueError(f"job {job.id} has not succeeded: {job.error}")
    timings = job.result.timings_ms
    begin_ms = job.claimed_ms + timings["fetch"] + timings["swap"]
    return Drawn(begin_ms, begin_ms + sum(timings[name] for name in DRAWING))


def account(drawn: Sequence[Drawn]) -> dict[str, Any]:
    """Idle time between the jobs of one worker, as medians and as a share of a job.

    Everything between two drawings counts: spooling, looking, claiming, fetching, converting, swapping. What comes
    before the first job does not, because nobody could have known.
    """
    ordered = sorted(drawn, key=lambda one: one.begin_ms)
    idle_ms = [after.begin_ms - before.end_ms for before, after in pairwise(ordered)]
    draw_ms = [one.end_ms - one.begin_ms for one in ordered]
    return {
        "jobs": len(ordered),
        "draw_ms": round(median(draw_ms), 1),
        "idle_ms": round(median(idle_ms), 1),
        "idle_worst_ms": round(max(idle_ms), 1),
        "idle_share": round(sum(idle_ms) / len(idle_ms) / (sum(draw_ms) / len(draw_ms)), 4),
    }
