"""Reclaim: the timers in every process that let nothing stop when one process is missing.

Each runs in whichever process gets its lock; running twice does no harm. Every two seconds expired leases go back to
the front, deadlines end jobs, and tickets are rung where jobs or events wait. Every half minute, apart from that
because a store can be slow, objects of lost attempts are deleted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from shared.errors import HotslotError, QueueUnavailable
from shared.outbox import Outbox
from shared.queue import Queue
from shared.storage import Store
from shared.tickets import NOTIFY_QUEUE, Tickets, base_queue

log = logging.getLogger(__name__)

RECLAIM_S = 2.0
SWEEP_S = 30.0
ORPHAN_AGE_MS = 60_000


class Reclaimer:
    """Daemon threads; ``start`` it once per process, ``stop`` it on shutdown."""

    def __init__(self, queue: Queue, outbox: Outbox, tickets: Tickets, store: Store) -> None:
        self._queue = queue
        self._outbox = outbox
        self._tickets = tickets
        self._store = store
        self._stopped = threading.Event()
        timers = {"reclaim": (RECLAIM_S, self.reclaim), "sweep": (SWEEP_S, self.sweep)}
        self._threads = [
            threading.Thread(target=self._run, args=(name, *timer), name=name, daemon=True)
            for name, timer in timers.items()
        ]

    def start(self) -> None:
        """Begin; the first rounds run at once."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End and wait a little for rounds in progress."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(timeout=5)

    def reclaim(self) -> None:
        """Return jobs, end jobs, ring."""
        for job in self._queue.reclaim():
            log.info("reclaimed job %s", job)
        # Whatever this process's own catalogue says: another one may serve more.
        for base_model in self._queue.waited_for():
            self._tickets.ring_if_quiet(base_queue(base_model))
        if self._outbox.due(self._queue.server_time_ms()):
            self._tickets.ring_if_quiet(NOTIFY_QUEUE)

    def sweep(self) -> None:
        """Delete objects that no job will ever name."""
        orphans = self._queue.orphans(ORPHAN_AGE_MS)
        for key in orphans:
            self._store.delete(key)
        if orphans:
            self._queue.orphans(ORPHAN_AGE_MS, forget=orphans)

    def _run(self, name: str, period_s: float, work: Callable[[], None]) -> None:
        while True:
            try:
                # A little less than the period, so that the next round's lock is free again.
                if self._queue.try_timer(name, round(period_s * 950)):
                    work()
            except QueueUnavailable:
                log.debug("%s: the job server does not answer", name)
            except HotslotError as error:
                log.warning("%s: %s", name, error.message)
            except Exception:
                log.exception("%s failed; it will run again", name)
            if self._stopped.wait(period_s):
                return
