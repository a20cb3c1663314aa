"""Traces: which adapter is asked for when, and by whom. Each follows from its seed alone."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

from bench.schedule.popularity import Popularity

Process = Literal["poisson", "bursts", "batches"]
BURST = 40
"""Jobs of a burst, all at one moment, each by somebody else."""
BATCH = 8
"""Jobs that one user submits at one moment, all with one adapter."""


@dataclass(frozen=True)
class Arrival:
    """One job of a trace. ``group``: its adapter."""

    at_ms: int
    group: str
    tenant: str = "default"


def make_trace(popularity: Popularity, process: Process, jobs: int, per_s: float, seed: int) -> list[Arrival]:
    """``jobs`` arrivals at ``per_s`` on average, by time."""
    random = Random(seed)
    size = {"poisson": 1, "bursts": BURST, "batches": BATCH}[process]
    moments = -(-jobs // size)
    picks = random.choices(range(popularity.adapters), popularity.weights, k=moments if process == "batches" else jobs)
    now_s, arrivals = 0.0, []
    for moment in range(moments):
        now_s += random.expovariate(per_s / size)
        for number in range(moment * size, min((moment + 1) * size, jobs)):
            pick = picks[moment if process == "batches" else number]
            arrivals.append(Arrival(round(now_s * 1000), f"a{pick:05}"))
    return arrivals
