"""Verdicts and pauses, without a network."""

from __future__ import annotations

import pytest

from worker.judge import DELAYS_MS, Verdict, judge, next_delay_ms

HOUR_MS = 3_600_000


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_any_2xx_is_delivered(status: int) -> None:
    assert judge(status, 1, 12, 0.5) == Verdict("delivered")
    assert judge(status, 12, 12, 0.5) == Verdict("delivered")


@pytest.mark.parametrize("answer", [100, 199, 300, 302, 308, 400, 401, 404, 408, 429, 500, 503, "ReadError: reset"])
def test_anything_else_is_tried_again(answer: int | str) -> None:
    verdict = judge(answer, 1, 12, 0.5)
    assert (verdict.outcome, verdict.delay_ms) == ("retry", 5000)
    assert str(answer) in verdict.note


def test_gone_is_final_at_once() -> None:
    assert judge(410, 1, 12, 0.5).outcome == "dead"


def test_the_last_attempt_is_final() -> None:
    assert judge(500, 11, 12, 0.5).outcome == "retry"
    assert judge(500, 12, 12, 0.5) == Verdict("dead", "HTTP 500")
    assert judge(500, 13, 12, 0.5).outcome == "dead"
    assert judge(500, 1, 1, 0.5).outcome == "dead"


def test_a_redirect_says_why() -> None:
    assert "redirects are not followed" in judge(302, 1, 12, 0.5).note


def test_pauses_grow_to_hours_and_stay_there() -> None:
    pauses = [next_delay_ms(attempts, 12, 0.5) for attempts in range(1, 12)]
    assert pauses[: len(DELAYS_MS)] == list(DELAYS_MS)
    assert set(pauses[len(DELAYS_MS) :]) == {DELAYS_MS[-1]}
    assert next_delay_ms(12, 12, 0.5) is None
    assert 12 * HOUR_MS < sum(pause or 0 for pause in pauses) < 48 * HOUR_MS


def test_jitter_spreads_each_pause() -> None:
    assert next_delay_ms(1, 12, 0.0) == 4000
    assert next_delay_ms(1, 12, 0.999999) == 6000
