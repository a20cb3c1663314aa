"""Keep trying while the job server or the store is away."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from shared.errors import Unavailable

T = TypeVar("T")

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0


def persist(call: Callable[[], T], until_s: float, give_up: Callable[[], bool] = lambda: False) -> T:
    """``call()``'s answer, tried again on ``Unavailable`` until the monotonic time ``until_s`` or ``give_up()``."""
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return call()
        except Unavailable:
            if give_up() or time.monotonic() + pause_s > until_s:
                raise
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
