"""Which fault comes when. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Literal

Fault = Literal["worker_child", "worker", "api", "notifier", "valkey", "store", "pause"]
"""Kill -9 of a worker's child, a worker, an API process, the notifier; a restart of Valkey; the store away for a
while; a worker stopped beyond its lease and let go on."""

FAULTS: tuple[Fault, ...] = ("worker_child", "worker", "api", "notifier", "valkey", "store", "pause")
LEAST_OF_EACH = 3
LEAST_ON_A_JOB = 8
"""Of all faults, so many must meet a worker with a job."""
EVERY_S = 5.0


def plan(random: Random, seconds: float) -> list[tuple[float, Fault]]:
    """Faults by their time from the start, evenly spread; each kind at least LEAST_OF_EACH times, never twice in a row.

    Whole rounds of all kinds, so that every kind meets every phase of the run.
    """
    rounds = max(LEAST_OF_EACH, round(seconds / EVERY_S / len(FAULTS)))
    kinds: list[Fault] = []
    for _ in range(rounds):
        kinds += _shuffled(random, FAULTS, kinds[-1:])
    gap_s = seconds / (len(kinds) + 1)
    return [((place + 1) * gap_s, kind) for place, kind in enumerate(kinds)]


def _shuffled(random: Random, kinds: Sequence[Fault], not_first: Sequence[Fault]) -> list[Fault]:
    while True:
        order = random.sample(kinds, len(kinds))
        if order[0] not in not_first:
            return order
