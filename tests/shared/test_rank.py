"""Turns: who goes when, between tenants."""

from __future__ import annotations

from shared.rank import Shares


def test_one_tenants_jobs_are_spread_over_the_time_that_they_take() -> None:
    shares = Shares()
    turns = [shares.turn_ms("t", 1000, oldest, 8000) for oldest in (None, 1000, 1000)]
    assert turns == [1000, 9000, 17_000]


def test_another_tenant_comes_right_behind_the_oldest() -> None:
    shares = Shares()
    for oldest in (None, *[0] * 2000):
        shares.turn_ms("many", 0, oldest, 8000)
    assert shares.turn_ms("one", 100_000, 96_000, 8000) == 96_001


def test_weights() -> None:
    shares = Shares()
    shares.turn_ms("oldest", 0, None, 1)
    heavy = [shares.turn_ms("heavy", 0, 0, 8000, weight=2) for _ in range(4)]
    light = [shares.turn_ms("light", 0, 0, 8000) for _ in range(2)]
    assert (heavy, light) == ([1, 4001, 8001, 12_001], [1, 8001])


def test_an_empty_queue_forgets_who_was_ahead_but_not_what_time_it_is() -> None:
    shares = Shares()
    for oldest in (None, 1000, 1000):
        shares.turn_ms("t", 1000, oldest, 8000)
    assert shares.turn_ms("t", 1010, None, 8000) == 17_001
    assert shares.turn_ms("t", 99_000, None, 8000) == 99_000


def test_work_always_takes_time() -> None:
    shares = Shares()
    assert [shares.turn_ms("t", 0, oldest, 0) for oldest in (None, 0)] == [1, 2]
