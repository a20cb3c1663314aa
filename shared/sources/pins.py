"""Pinning at admission: every source of a job is looked up at once, and nobody waits longer than the budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from threading import BoundedSemaphore, Thread

from shared.errors import AdapterNotReady
from shared.sources.opened import Opened

PIN_BUDGET_S = 5.0
MOST_AT_ONCE = 32
"""Look-ups of one process; a source that hangs holds its place until its own time is up."""

LookUp = Callable[[], Opened]


@dataclass(frozen=True)
class Pinning:
    """Look-ups that are under way, by field."""

    _found: dict[str, Future[Opened]]
    _end_s: float

    def opened(self, field: str) -> Opened:
        """What was found for a field; raises what the look-up raised, or ``AdapterNotReady`` when time is up."""
        try:
            return self._found[field].result(max(0.0, self._end_s - time.monotonic()))
        except TimeoutError:
            raise AdapterNotReady(
                f"{field}: the source does not tell its version in time; try again.", field=field
            ) from None


class Pins:
    """Starts look-ups, for any thread of one process."""

    def __init__(self, budget_s: float = PIN_BUDGET_S) -> None:
        self._budget_s = budget_s
        self._places = BoundedSemaphore(MOST_AT_ONCE)

    def start(self, look_ups: Sequence[tuple[str, LookUp]]) -> Pinning:
        """Begin all look-ups, each for a field; their common budget begins now."""
        end_s = time.monotonic() + self._budget_s
        return Pinning({field: self._begin(field, look_up) for field, look_up in look_ups}, end_s)

    def _begin(self, field: str, look_up: LookUp) -> Future[Opened]:
        found: Future[Opened] = Future()
        if not self._places.acquire(blocking=False):
            found.set_exception(
                AdapterNotReady(f"{field}: too many sources are being looked up right now; try again.", field=field)
            )
            return found
        # A daemon, so that a source that hangs does not hold up the end of the process.
        Thread(target=self._look_up, args=(look_up, found), name="pin", daemon=True).start()
        return found

    def _look_up(self, look_up: LookUp, found: Future[Opened]) -> None:
        try:
            found.set_result(look_up())
        except Exception as error:
            found.set_exception(error)
        finally:
            self._places.release()
