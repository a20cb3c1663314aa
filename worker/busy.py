"""How busy the denoiser is: the share of the time, while jobs wait, in which it runs.

Time counts from when jobs were seen to wait until none was. Without waiting jobs nothing counts, however much is drawn,
so that a quiet hour says nothing about the worker. What is missing to 1 went into swaps, claims, tickets, and whatever
else the denoiser had to wait for.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

WINDOW_S = 300.0


class Span(NamedTuple):
    """A time in which jobs waited, seconds of one clock, and whether the denoiser ran."""

    begin_s: float
    end_s: float
    denoising: bool


def busy_ratio(spans: Iterable[Span], since_s: float) -> float | None:
    """Share of the spans' time after ``since_s`` in which the denoiser ran; None if there is no such time."""
    counted_s = {False: 0.0, True: 0.0}
    for span in spans:
        counted_s[span.denoising] += max(0.0, span.end_s - max(span.begin_s, since_s))
    total_s = sum(counted_s.values())
    return counted_s[True] / total_s if total_s else None


class Busy:
    """The account of one worker over the last ``window_s``; safe from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, window_s: float = WINDOW_S) -> None:
        self._clock = clock
        self._window_s = window_s
        self._spans: deque[Span] = deque()
        self._waits = False
        self._denoising = False
        self._since_s = clock()
        self._guard = threading.Lock()

    def waits(self, yes: bool) -> None:
        """Jobs were seen to wait now, or none was (or none that this worker may have)."""
        with self._guard:
            self._close()
            self._waits = yes

    @contextmanager
    def denoising(self) -> Iterator[None]:
        """The denoiser runs within this block."""
        with self._guard:
            self._close()
            self._denoising = True
        try:
            yield
        finally:
            with self._guard:
                self._close()
                self._denoising = False

    @property
    def ratio(self) -> float | None:
        """Of the last ``window_s``; None when no job waited in them."""
        with self._guard:
            self._close()
            return busy_ratio(self._spans, self._since_s - self._window_s)

    def _close(self) -> None:
        """End the span that is under way."""
        begin_s, self._since_s = self._since_s, self._clock()
        if self._waits:
            if self._spans and self._spans[-1].end_s == begin_s and self._spans[-1].denoising == self._denoising:
                begin_s = self._spans.pop().begin_s
            self._spans.append(Span(begin_s, self._since_s, self._denoising))
        while self._spans and self._spans[0].end_s < self._since_s - self._window_s:
            self._spans.popleft()
