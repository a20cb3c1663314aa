"""What this process counts, and how it reaches the server: as differences, so that a lost connection loses nothing."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping

from shared.meters import Meter, Stage

_METERS: dict[Stage, tuple[Meter, Meter]] = {
    "swap": ("swap_count", "swap_us"),
    "fetch": ("fetch_count", "fetch_us"),
    "convert": ("convert_count", "convert_us"),
}


class Tally:
    """Totals since the process started; safe from any thread."""

    def __init__(self) -> None:
        self._totals: Counter[Meter] = Counter()
        self._sent: Counter[Meter] = Counter()
        self._guard = threading.Lock()
        self._sending = threading.Lock()

    def add(self, meter: Meter, amount: int = 1) -> None:
        """Count."""
        with self._guard:
            self._totals[meter] += amount

    def took(self, stage: Stage, seconds: float) -> None:
        """A stage was gone through once."""
        count, sum_us = _METERS[stage]
        self.add(count)
        self.add(sum_us, round(seconds * 1e6))

    def total(self, meter: Meter) -> int:
        """How much was counted so far."""
        with self._guard:
            return self._totals[meter]

    def send(self, send: Callable[[Mapping[Meter, int]], None], counted_elsewhere: Mapping[Meter, int]) -> None:
        """Hand to ``send`` what it has not had yet; what it raises passes through, and nothing counts as sent.

        ``counted_elsewhere``: totals that others keep.
        """
        with self._sending:
            with self._guard:
                totals = self._totals | Counter(counted_elsewhere)
            if new := totals - self._sent:
                send(new)
                self._sent = totals
