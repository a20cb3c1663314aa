"""Reclaim: the timer in every process that lets nothing stop when one process is missing.

Every two seconds, in whichever process gets the lock: expired leases go back to the front, deadlines end jobs, tickets
are rung where jobs or events wait, objects of lost attempts are deleted. Running it twice does no harm.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable

from shared.errors import HotslotError, QueueUnavailable
from shared.outbox import Outbox
from shared.queue import Queue
from shared.storage import Store
from shared.tickets import NOTIFY_QUEUE, Tickets, base_queue

log = logging.getLogger(__name__)

PERIOD_S = 2.0
ORPHAN_AGE_MS = 60_000


class Reclaimer:
    """A daemon thread; ``start`` it once per process, ``stop`` it on shutdown."""

    def __init__(
        self, queue: Queue, outbox: Outbox, tickets: Tickets, store: Store | None, base_models: Iterable[str]
    ) -> None:
        self._queue = queue
        self._outbox = outbox
        self._tickets = tickets
        self._store = store
        self._base_models = tuple(base_models)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reclaim", daemon=True)

    def start(self) -> None:
        """Begin; the first round runs at once."""
        self._thread.start()

    def stop(self) -> None:
        """End and wait for a round in progress."""
        self._stopped.set()
        self._thread.join(timeout=10)

    def round(self) -> list[str]:
        """One round; returns the jobs whose state it changed."""
        changed = self._queue.reclaim()
        for job in changed:
            log.info("reclaimed job %s", job)
        for base_model in self._base_models:
            if self._queue.depth(base_model):
                self._tickets.ring_if_quiet(base_queue(base_model))
        if self._outbox.due(self._queue.server_time_ms()):
            self._tickets.ring_if_quiet(NOTIFY_QUEUE)
        if self._store is not None:
            self._sweep(self._store)
        return changed

    def _sweep(self, store: Store) -> None:
        orphans = self._queue.orphans(ORPHAN_AGE_MS)
        for key in orphans:
            store.delete(key)
        if orphans:
            self._queue.orphans(ORPHAN_AGE_MS, forget=orphans)

    def _run(self) -> None:
        while True:
            try:
                if self._queue.try_reclaim_lock(round(PERIOD_S * 950)):
                    self.round()
            except QueueUnavailable:
                log.debug("reclaim: the job server does not answer")
            except HotslotError as error:
                log.warning("reclaim: %s", error.message)
            except Exception:
                log.exception("reclaim failed; it will run again")
            if self._stopped.wait(PERIOD_S):
                return
