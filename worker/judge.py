"""What follows from one attempt to deliver a webhook: a decision as a value, with no clock and no network."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from shared.outbox import Outcome

Answer = int | str
"""The receiver's HTTP status, or what kept the request from getting one, in a few words."""

_S = 1000
_MIN = 60 * _S
_H = 60 * _MIN
DELAYS_MS = (5 * _S, 15 * _S, 1 * _MIN, 5 * _MIN, 15 * _MIN, 1 * _H, 3 * _H, 6 * _H)
"""Pause after the first, second … attempt; the last one repeats. Twelve attempts span about 28 hours."""
JITTER = 0.2
"""Each pause is up to this share longer or shorter, so that events that failed together do not return together."""


@dataclass(frozen=True)
class Verdict:
    """How an attempt ends; ``note`` says why it failed. ``delay_ms`` only for a retry."""

    outcome: Outcome
    note: str = ""
    delay_ms: int = 0


def judge(answer: Answer, attempts: int, most_attempts: int, draw: float) -> Verdict:
    """The verdict on attempt number ``attempts`` (from 1). ``draw``: a random number in [0, 1)."""
    if isinstance(answer, int) and 200 <= answer <= 299:
        return Verdict("delivered")
    if answer == HTTPStatus.GONE:
        return Verdict("dead", "the receiver is gone (HTTP 410)")
    note = answer if isinstance(answer, str) else f"HTTP {answer}"
    if isinstance(answer, int) and 300 <= answer <= 399:
        note += "; redirects are not followed"
    delay_ms = next_delay_ms(attempts, most_attempts, draw)
    return Verdict("dead", note) if delay_ms is None else Verdict("retry", note, delay_ms)


def next_delay_ms(attempts: int, most_attempts: int, draw: float) -> int | None:
    """Pause after ``attempts`` failed attempts; None when there is to be no further one."""
    if attempts >= most_attempts:
        return None
    middle_ms = DELAYS_MS[min(attempts, len(DELAYS_MS)) - 1]
    return round(middle_ms * (1 + JITTER * (2 * draw - 1)))
