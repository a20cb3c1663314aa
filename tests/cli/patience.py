"""Waiting for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 60.0


def until(true: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Return when it is true; fail after a long time."""
    end_s = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < end_s, "waited in vain"
        time.sleep(0.02)


def lives(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
