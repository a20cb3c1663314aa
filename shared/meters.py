"""What all workers of a base model have counted since its queue was made: totals that only grow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import redis

from shared import keys
from shared.server import fields_of, reached

Tier = Literal["slot", "memory", "disk", "remote"]
"""Where an adapter was when a job needed it. "disk": a file on the worker's machine, not converted yet."""

Stage = Literal["swap", "fetch", "convert"]
"""What bringing an adapter into the slot consists of. "fetch": from a remote source to the disk."""

Meter = Literal[
    "hits_slot",
    "hits_memory",
    "hits_disk",
    "hits_remote",
    "swap_us",
    "swap_count",
    "fetch_us",
    "fetch_count",
    "convert_us",
    "convert_count",
    "prefetched",
    "recompiles",
]
"""Hits count adapters of jobs, microseconds are sums, ``prefetched`` counts adapters brought before any job did."""


class Meters:
    """Totals by base model; raises ``QueueUnavailable`` when the server is not reached."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client

    def add(self, base_model: str, amounts: Mapping[Meter, int]) -> None:
        """Add what one worker has counted since it last did."""
        with reached(), self._redis.pipeline(transaction=True) as pipe:
            for meter, amount in amounts.items():
                pipe.hincrby(keys.METERS(base_model), meter, amount)
            pipe.execute()

    def read(self, base_model: str) -> dict[str, int]:
        """All totals that are not zero."""
        return {meter: int(total) for meter, total in fields_of(self._redis, keys.METERS(base_model)).items()}
