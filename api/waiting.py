"""Callers that wait for a job: how many at once, and what ends their waiting.

A waiter holds no thread, but a connection of the caller and one to the job server, so their number is bounded.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from starlette.requests import Request

from shared.errors import TooManyWaiters
from shared.events import Events

T = TypeVar("T")

MOST_WAITERS = 400
"""Per process. With their two connections each they fit below the usual limit of 1024 open files."""
LONGEST_WAIT_S = 60
SLICE_MS = 10_000
"""Longest single read, so that a dead server is noticed during a long wait."""

_PREFER_WAIT = re.compile(r'(?:^|[,;])\s*wait\s*=\s*"?(\d{1,9})"?\s*(?=[,;]|$)', re.IGNORECASE)


class Waiters:
    """The seats of waiting callers in this process."""

    def __init__(self, most: int = MOST_WAITERS) -> None:
        self._most = most
        self._seated = 0
        self._closing = asyncio.Event()

    @property
    def seated(self) -> int:
        """How many wait now."""
        return self._seated

    @contextmanager
    def seat(self) -> Iterator[None]:
        """Hold a seat; ``TooManyWaiters`` when all are taken."""
        if self._seated >= self._most:
            raise TooManyWaiters(f"All {self._most} places for waiting callers are taken; ask without waiting.")
        self._seated += 1
        try:
            yield
        finally:
            self._seated -= 1

    def close(self) -> None:
        """End all waiting, now and later, because the process stops. Call it in the event loop."""
        self._closing.set()

    async def closed(self) -> None:
        """Return when the process stops."""
        await self._closing.wait()


async def first_of(*waits: Coroutine[Any, Any, T]) -> T:
    """The result (or error) of what ends first, the earlier argument if several do; the others are cancelled."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task in done).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def gone(request: Request) -> None:
    """Return when the caller has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def ended(events: Events, job_id: str, wait_s: float) -> None:
    """Return when the job has ended, at once if it has already, or after ``wait_s``."""
    until_s = time.monotonic() + wait_s
    newest = await events.newest(job_id)
    if newest is None or newest.terminal:
        return
    last_id = newest.id
    while (left_ms := round((until_s - time.monotonic()) * 1000)) > 0:
        for event in await events.after(job_id, last_id, min(left_ms, SLICE_MS)):
            if event.terminal:
                return
            last_id = event.id


def preferred_wait_s(prefer: Sequence[str]) -> int | None:
    """Seconds of the ``wait`` preference (RFC 7240), cut to ``LONGEST_WAIT_S``; None when there is none."""
    found = _PREFER_WAIT.search(",".join(prefer))
    return min(int(found[1]), LONGEST_WAIT_S) if found else None
