"""Webhook events that wait for delivery: rows that the terminal write made, leased by notifiers.

Events wait in one line per endpoint (scheme, host and port), so that a slow endpoint delays only its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import redis

from shared import keys
from shared.scripts import Scripts
from shared.server import reached
from shared.settings import Settings

Outcome = Literal["delivered", "retry", "dead"]


@dataclass(frozen=True)
class Row:
    """One leased event. ``attempts`` includes this one and fences its settlement; ``body`` is empty at first."""

    event: str
    job: str
    type: str
    url: str
    endpoint: str
    attempts: int
    created_ms: int
    body: str


class Outbox:
    """Rows on one server. Every method raises ``QueueUnavailable`` when the server is not reached."""

    def __init__(self, client: redis.Redis, settings: Settings) -> None:
        self._redis = client
        self._settings = settings
        self._scripts = Scripts(client)

    def take(
        self, most: int, lease_ms: int, *, per_endpoint: int | None = None, busy: Mapping[str, int] | None = None
    ) -> list[Row]:
        """Lease up to ``most`` due rows for ``lease_ms``; a notifier that dies lets them fall due again.

        No more than ``per_endpoint`` rows of one endpoint, counting those that the caller is ``busy`` with.
        """
        flat = self._scripts.run(
            "outbox_take", most=most, lease_ms=lease_ms, per_endpoint=per_endpoint or most, busy=dict(busy or {})
        )
        rows = [flat[start : start + 8] for start in range(0, len(flat), 8)]
        return [Row(e, job, kind, url, end, int(n), int(ms), body) for e, job, kind, url, end, n, ms, body in rows]

    def fix_body(self, event: str, body: str) -> str:
        """The event's bytes for every attempt: ``body`` if none was fixed before. Empty when the row is gone."""
        (fixed,) = self._scripts.run("outbox_body", event=event, body=body)
        return fixed

    def settle(self, row: Row, outcome: Outcome, *, delay_ms: int = 0, note: str = "") -> bool:
        """Record how the attempt ended; False when another notifier has taken the row since."""
        (answer,) = self._scripts.run(
            "outbox_settle",
            event=row.event,
            attempts=row.attempts,
            outcome=outcome,
            delay_ms=delay_ms,
            note=note,
            retention_ms=self._settings.retention_s * 1000,
        )
        return answer == "ok"

    def due(self, now_ms: int) -> int:
        """How many rows are due."""
        with reached():
            return int(self._redis.zcount(keys.OUTBOX(), "-inf", now_ms))
