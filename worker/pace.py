"""What swaps and jobs take on this worker: medians of the last ones, so that one slow download changes no order.

What was never measured is guessed to take as long as a job, which lets the order serve adapters until more is known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from worker.choose import Pace

REMEMBERED = 31

Tier = Literal["cold", "warm"]


def _few() -> deque[float]:
    return deque(maxlen=REMEMBERED)


@dataclass
class Measured:
    """The last durations, milliseconds."""

    _services_ms: deque[float] = field(default_factory=_few)
    _swaps_ms: dict[Tier, deque[float]] = field(default_factory=lambda: {"cold": _few(), "warm": _few()})

    def served(self, service_ms: float) -> None:
        """A job was drawn within this time, its adapters being in the slot."""
        self._services_ms.append(service_ms)

    def swapped(self, tier: Tier, swap_ms: float) -> None:
        """The adapters were changed within this time, fetching included."""
        self._swaps_ms[tier].append(swap_ms)

    @property
    def pace(self) -> Pace:
        """For the next choice."""
        service_ms = _median(self._services_ms, 1.0)
        cold_ms = _median(self._swaps_ms["cold"], service_ms)
        return Pace(service_ms, cold_ms, _median(self._swaps_ms["warm"], 0.0))


def _median(values: Iterable[float], otherwise: float) -> float:
    known = list(values)
    return median(known) if known else otherwise
