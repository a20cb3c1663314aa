"""From jobs' records to the time in which nothing was drawn between them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, median
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


@dataclass(frozen=True)
class Measured:
    """Jobs of one worker, all submitted at once, and what it counted meanwhile (see ``shared.meters``)."""

    drawn: list[Drawn]
    meters: Mapping[str, int]

    @property
    def idle_ms(self) -> list[float]:
        """Time between two drawings: spooling, looking, claiming, fetching, converting, swapping.

        What comes before the first job does not count, because nobody could have known.
        """
        ordered = sorted(self.drawn, key=lambda one: one.begin_ms)
        return [after.begin_ms - before.end_ms for before, after in pairwise(ordered)]


def summed(rounds: Sequence[Measured]) -> dict[str, Any]:
    """Medians over all rounds, and the idle time as a share of a job's drawing (means)."""
    idle_ms = [idle for one in rounds for idle in one.idle_ms]
    draw_ms = [drawn.end_ms - drawn.begin_ms for one in rounds for drawn in one.drawn]
    meters = sum((Counter(one.meters) for one in rounds), Counter[str]())
    return {
        "jobs": len(draw_ms),
        "draw_ms": round(median(draw_ms), 1),
        "idle_ms": round(median(idle_ms), 1),
        "idle_worst_ms": round(max(idle_ms), 1),
        "idle_share": round(mean(idle_ms) / mean(draw_ms), 4),
        "fetch_ms": round(meters["fetch_us"] / meters["fetch_count"] / 1000, 1),
        "fetch_share": round(meters["fetch_us"] / meters["fetch_count"] / 1000 / mean(draw_ms), 3),
        "convert_ms": round(meters["convert_us"] / meters["convert_count"] / 1000, 1),
        "hits": {tier: meters[f"hits_{tier}"] for tier in ("memory", "disk", "remote")},
    }
