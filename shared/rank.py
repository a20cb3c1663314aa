"""Rank time: a job's turn, moved earlier by a head start. Pure; ``submit.lua`` keeps the same in the server.

Turns share a base model between tenants by start-time fair queueing (Goyal, Vin, Cheng: "Start-time Fair Queueing",
SIGCOMM 1996): each job of a tenant has its turn when the work before it, divided by the tenant's weight, is done. So a
tenant that submits thousands of jobs at once spreads them over the time that they take, and another one's first job
goes right behind the oldest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

HEAD_START_MS = {"low": -30_000, "normal": 0, "high": 30_000}
"""How much earlier than its turn a job of this priority ranks, in time of work."""

GUESSED_STEP_US = 100_000
"""What a step of a job takes, as long as no job has ended."""


@dataclass
class Shares:
    """When each tenant with waiting jobs will have had what it asked for until now.

    The clock is Unix time in milliseconds as long as hardly anything waits; then it counts work, going on from there.
    """

    _ends_ms: dict[str, int] = field(default_factory=dict)
    _last_ms: int = 0

    def turn_ms(self, tenant: str, now_ms: int, oldest_ms: int | None, work_ms: float, weight: float = 1.0) -> int:
        """The turn of a job that arrives. ``oldest_ms``: the turn of the oldest waiting job; None: nothing waits."""
        if oldest_ms is None:
            self.forget()
            # A job that is handed back later keeps its turn, which must not be behind everybody who came since.
            turn_ms = max(now_ms, self._last_ms + 1)
        else:
            # Behind the oldest, so that no stream of new tenants keeps it waiting.
            turn_ms = max(oldest_ms + 1, self._ends_ms.get(tenant, 0))
        self._ends_ms[tenant] = turn_ms + max(1, ceil(work_ms / weight))
        self._last_ms = max(self._last_ms, turn_ms)
        return turn_ms

    def forget(self) -> None:
        """Nothing waits any more, so nobody is ahead of anybody."""
        self._ends_ms.clear()
