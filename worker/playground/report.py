"""What the training says on its way: to the terminal and to ``lesson.log`` in its folder."""

from __future__ import annotations

import logging
import time
from pathlib import Path

log = logging.getLogger(__name__)


def say(work: Path, line: str, started_s: float) -> None:
    """Log one line with the seconds since ``started_s`` (of ``time.perf_counter``)."""
    text = f"{line} ({time.perf_counter() - started_s:.0f} s)"
    log.info(text)
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lesson.log").open("a") as file:
        file.write(text + "\n")
