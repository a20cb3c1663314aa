"""The account of the denoiser's time."""

from __future__ import annotations

from worker.busy import Busy, Span, busy_ratio


class Clock:
    """Seconds, moved by hand."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_the_share_of_the_time_within_the_window() -> None:
    spans = [Span(0, 10, denoising=True), Span(10, 12, denoising=False), Span(12, 20, denoising=True)]
    assert busy_ratio(spans, 0) == 18 / 20
    assert busy_ratio(spans, 11) == 8 / 9
    assert busy_ratio(spans, 20) is None
    assert busy_ratio([], 0) is None


def test_only_time_in_which_jobs_wait_counts() -> None:
    clock = Clock()
    busy = Busy(clock, window_s=100)
    clock.now_s += 50
    assert busy.ratio is None
    busy.waits(True)
    clock.now_s += 1
    with busy.denoising():
        clock.now_s += 8
        busy.waits(True)
        clock.now_s += 1
    busy.waits(False)
    with busy.denoising():
        clock.now_s += 30
    assert busy.ratio == 0.9
    clock.now_s += 65
    # The first second of waiting has left the window, and the first half of the denoising.
    assert busy.ratio == 1.0
    clock.now_s += 30
    assert busy.ratio is None


def test_the_memory_is_bounded_by_the_window() -> None:
    clock = Clock()
    busy = Busy(clock, window_s=10)
    busy.waits(True)
    for _ in range(1000):
        clock.now_s += 0.5
        with busy.denoising():
            clock.now_s += 0.5
        busy.waits(True)
    assert busy.ratio == 0.5
    assert len(busy._spans) < 25
