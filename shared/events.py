"""Reading a job's events while they happen, without a thread per reader.

The events are a capped stream per job that the Lua scripts write; the last one is its end. A reader that blocks
holds one connection, so whoever serves many readers must bound them.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import redis
import redis.asyncio

from shared import keys
from shared.job import TERMINAL
from shared.server import reached

FROM_START = "0"
ANSWER_S = 2.0
"""How long after the end of its blocking time a read may still take; then the server counts as not reached."""

_Rows = list[tuple[str, dict[str, str]]]


@dataclass(frozen=True)
class Event:
    """One event: its stream id (also where to resume), its type, and its data as JSON text."""

    id: str
    type: str
    data: str

    @property
    def terminal(self) -> bool:
        """Whether the job has ended with this event."""
        return self.type in TERMINAL


class Events:
    """Events on one server. Every read raises ``QueueUnavailable`` when the server is not reached in time."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self._redis = client

    async def newest(self, job_id: str) -> Event | None:
        """The newest event, or None when the job has none."""
        with reached():
            async with asyncio.timeout(ANSWER_S):
                rows = await self._redis.xrevrange(keys.EVENTS(job_id), count=1)
        return next(iter(_events(cast("_Rows", rows))), None)

    async def after(self, job_id: str, last_id: str, block_ms: int) -> list[Event]:
        """Events after ``last_id``, waiting up to ``block_ms`` for the first; empty when none came.

        Cancelling it gives its connection up, so that no reader is left behind on the server.
        """
        with reached():
            async with asyncio.timeout(block_ms / 1000 + ANSWER_S):
                answer = await self._redis.xread({keys.EVENTS(job_id): last_id}, block=max(1, block_ms))
        return [event for _, rows in cast("list[tuple[str, _Rows]]", answer) for event in _events(rows)]

    async def close(self) -> None:
        """Give up all connections."""
        with suppress(redis.RedisError, OSError):
            await self._redis.aclose()


def _events(rows: _Rows) -> list[Event]:
    return [Event(id, fields["type"], fields["data"]) for id, fields in rows]
