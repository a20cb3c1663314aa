"""Prefetch: while a job is drawn, a thread brings the adapters of the next jobs, and pinned ones, into memory."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from shared.errors import HotslotError
from shared.groups import adapters_of
from shared.job import PinnedAdapter
from shared.queue import Queue
from shared.registry import Registry
from worker.ahead import Wanted, needs, next_groups, next_to_bring
from worker.choose import Here, Limits, Pace
from worker.rounds import Rounds
from worker.supply import Supply
from worker.tally import Tally

log = logging.getLogger(__name__)

PINS_S = 3.0
RETRY_S = 30.0
"""An adapter that was brought, with whatever outcome, is not brought again so soon."""


class _Aside(Exception):
    """What is being fetched must make way."""


@dataclass(frozen=True)
class _View:
    """What the worker knew when its job began to be drawn."""

    here: Here
    pace: Pace


class Prefetcher:
    """One adapter at a time; whatever goes wrong here, the job that needs the adapter will meet it by itself.

    ``groups``: how many groups ahead. ``stop_at_s`` tells the monotonic time by which this process must end, or 0.
    ``on_brought`` is called after each adapter, in this thread.
    """

    def __init__(
        self,
        base_model: str,
        worker: str,
        queue: Queue,
        registry: Registry,
        supply: Supply,
        tally: Tally,
        limits: Limits,
        groups: int,
        stop_at_s: Callable[[], float],
        on_brought: Callable[[], None] = lambda: None,
    ) -> None:
        self._base_model = base_model
        self._worker = worker
        self._queue = queue
        self._registry = registry
        self._supply = supply
        self._tally = tally
        self._limits = limits
        self._groups = groups
        self._stop_at_s = stop_at_s
        self._on_brought = on_brought
        self._view: _View | None = None
        self._foreground: frozenset[str] | None = None
        self._pinned: list[PinnedAdapter] = []
        self._pins_read_s = -PINS_S
        self._tried: dict[str, float] = {}
        self._rounds = Rounds("prefetch", self.round)

    def start(self) -> None:
        """Begin."""
        self._rounds.start()

    def stop(self) -> None:
        """End; what is fetched so far stays for whoever goes on."""
        self._rounds.stop()

    @contextmanager
    def aside_for(self, adapters: Iterable[PinnedAdapter]) -> Iterator[None]:
        """Meanwhile a job fetches these itself, if any: nothing else is fetched beside it."""
        self._foreground = frozenset(adapter.identity for adapter in adapters) or None
        try:
            yield
        finally:
            self._foreground = None

    def look_ahead(self, here: Here, pace: Pace) -> None:
        """A job begins to be drawn; ``here`` as it will be once it is done."""
        self._view = _View(here, pace)
        self._rounds.wake()

    def round(self) -> None:
        """Bring whatever is to be brought now. Raises ``QueueUnavailable`` when the server is not reached."""
        while self._may_begin() and (adapter := self._next()):
            self._bring(adapter)

    def _may_begin(self) -> bool:
        return not self._rounds.stopped and not self._stop_at_s() and self._foreground is None

    def _next(self) -> PinnedAdapter | None:
        now_s = time.monotonic()
        self._tried = {identity: until_s for identity, until_s in self._tried.items() if until_s > now_s}
        self._read_pins(now_s)
        wanted = [Wanted(adapter, self._supply.tier_of(adapter)) for adapter in self._upcoming()]
        wanted += [Wanted(adapter, self._supply.tier_of(adapter), pinned=True) for adapter in self._pinned]
        return next_to_bring(wanted, self._tried)

    def _upcoming(self) -> list[PinnedAdapter]:
        """Adapters of the next groups that are not all in memory."""
        view, warm = self._view, self._supply.warm()
        if view is None or not self._groups:
            return []
        look = self._queue.look(self._base_model, view.here.resident, self._worker)
        coming = next_groups(look, replace(view.here, warm=warm), view.pace, self._limits, self._groups)
        # What is needed soonest is evicted last.
        for group in reversed((view.here.resident, *coming)):
            self._supply.touch(adapters_of(group))
        heads = (self._queue.head(self._base_model, group) for group in coming if needs(group, warm))
        # A group may have been claimed empty since it was looked at.
        return [adapter for job in heads if job for adapter in job.spec.adapters]

    def _read_pins(self, now_s: float) -> None:
        if now_s - self._pins_read_s >= PINS_S:
            self._pinned = [adapter.admitted() for adapter in self._registry.pinned_for(self._base_model)]
            self._pins_read_s = now_s
        self._supply.pin(self._pinned)

    def _bring(self, adapter: PinnedAdapter) -> None:
        def on_progress() -> None:
            foreground = self._foreground
            aside = foreground is not None and adapter.identity not in foreground
            if aside or self._rounds.stopped or self._stop_at_s():
                raise _Aside

        try:
            self._supply.prepare([adapter], on_progress)
            self._tally.add("prefetched")
        except _Aside:
            return
        except HotslotError as error:
            log.info("not prefetched: %s", error.message)
        except Exception:
            log.exception("an adapter was not prefetched")
        self._tried[adapter.identity] = time.monotonic() + RETRY_S
        self._on_brought()
