"""Deliver webhook events side by side, so that one slow endpoint delays nobody else."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from shared.errors import QueueUnavailable
from shared.outbox import Outbox, Row
from worker.deliver import Deliverer

log = logging.getLogger(__name__)

MOST_IN_FLIGHT = 32
PER_ENDPOINT = 4
"""With this many of MOST_IN_FLIGHT at most, it takes eight hanging endpoints to keep a ninth waiting."""


def lease_ms_for(timeout_s: float) -> int:
    """How long a row is leased: the request's time limit twice, and half a minute for look-ups and the queue."""
    return round(2000 * timeout_s) + 30_000


class Notifier:
    """Takes due events and delivers them on threads of its own. Every method is safe from any thread."""

    def __init__(
        self,
        outbox: Outbox,
        deliverer: Deliverer,
        lease_ms: int,
        *,
        most_in_flight: int = MOST_IN_FLIGHT,
        per_endpoint: int = PER_ENDPOINT,
    ) -> None:
        self._outbox = outbox
        self._deliverer = deliverer
        self._lease_ms = lease_ms
        self._most_in_flight = most_in_flight
        self._per_endpoint = per_endpoint
        self._pool = ThreadPoolExecutor(max_workers=most_in_flight, thread_name_prefix="webhook")
        self._changed = threading.Condition()
        self._busy: Counter[str] = Counter()
        self._closing = False

    def wake(self) -> None:
        """Begin to deliver what is due and there is room for; returns without waiting for any receiver.

        Whenever a delivery ends, what is due then is begun too, so one call empties the outbox.
        """
        try:
            self.begin()
        except QueueUnavailable as error:
            log.warning("webhooks wait: %s", error.message)

    def close(self, timeout_s: float) -> bool:
        """Begin nothing more and wait for what is under way; False when some did not end within ``timeout_s``.

        What did not end falls due again when its lease ends.
        """
        with self._changed:
            self._closing = True
            ended = self._changed.wait_for(lambda: not self._busy, timeout_s)
        self._pool.shutdown(wait=ended, cancel_futures=True)
        return ended

    def begin(self) -> None:
        """As ``wake``, but raises ``QueueUnavailable``."""
        with self._changed:
            room = self._most_in_flight - self._busy.total()
            if self._closing or room <= 0:
                return
            rows = self._outbox.take(room, self._lease_ms, per_endpoint=self._per_endpoint, busy=self._busy)
            for row in rows:
                self._busy[row.endpoint] += 1
                self._pool.submit(self._deliver, row)

    def _deliver(self, row: Row) -> None:
        try:
            self._deliverer.deliver(row)
        except QueueUnavailable as error:
            log.warning("webhook %s falls due again: %s", row.event, error.message)
        except Exception:
            log.exception("webhook %s falls due again", row.event)
        finally:
            with self._changed:
                self._busy -= Counter({row.endpoint: 1})
                self._changed.notify_all()
            self.wake()
