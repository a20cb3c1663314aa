"""What a worker remembers of its own speed."""

from __future__ import annotations

from worker.choose import Pace
from worker.pace import REMEMBERED, Measured


def test_before_anything_is_measured_a_cold_swap_is_worth_a_job() -> None:
    pace = Measured().pace
    assert (pace.cold_swap_ms, pace.warm_swap_ms) == (pace.service_ms, 0)


def test_medians_of_each_kind() -> None:
    measured = Measured()
    for service_ms in (7000, 8000, 60_000):
        measured.served(service_ms)
    for swap_ms in (2900, 3000, 600_000):
        measured.swapped("cold", swap_ms)
    measured.swapped("warm", 20)
    assert measured.pace == Pace(8000, 3000, 20)


def test_what_was_long_ago_is_forgotten() -> None:
    measured = Measured()
    for _ in range(REMEMBERED):
        measured.served(8000)
    for _ in range(REMEMBERED // 2 + 1):
        measured.served(100)
    assert measured.pace.service_ms == 100
