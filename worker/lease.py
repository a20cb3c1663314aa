"""The lease on a claimed job: renewed while the job's stages make progress, not merely while a thread lives."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Literal, Self

from shared.errors import QueueUnavailable
from shared.queue import Held, Queue

log = logging.getLogger(__name__)

Why = Literal["lost", "cancelled", "expired", "handed_back"]


class Interrupted(Exception):
    """Raised at a step when the job must not go on here; ``why`` tells how to leave it."""

    def __init__(self, why: Why) -> None:
        super().__init__(why)
        self.why: Why = why


def must_hand_back(stop_at_s: float, now_s: float, steps_left: int, step_s: float) -> bool:
    """Whether a job with so many steps left cannot end before the process must (0: it need not)."""
    return stop_at_s > 0 and now_s + steps_left * step_s > stop_at_s


class Lease:
    """Keeps one job's lease while it is worked on. Use as a context manager around the job's stages.

    ``stop_at_s`` tells the monotonic time by which this process must end, or 0.
    """

    def __init__(self, queue: Queue, job_id: str, attempt: int, lease_ms: int, stop_at_s: Callable[[], float]) -> None:
        self._queue = queue
        self._job_id = job_id
        self._attempt = attempt
        self._period_s = lease_ms / 3000
        self._stop_at_s = stop_at_s
        self._held: Held = "ok"
        self._progress_until_s = 0.0
        self._last_step_s: float | None = None
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        self._thread.join()

    def stage(self, budget_s: float) -> None:
        """Begin a stage that may take this long; past that the lease is left to run out. Raises Interrupted."""
        self._progress_until_s = time.monotonic() + budget_s
        self._last_step_s = None
        self._check(steps_left=0, step_s=0.0)

    def step(self, done: int, steps: int, budget_s: float) -> None:
        """Record that a step is done; the next one may take ``budget_s``. Raises Interrupted."""
        now_s = time.monotonic()
        step_s = now_s - self._last_step_s if self._last_step_s is not None else 0.0
        self._last_step_s = now_s
        self._progress_until_s = now_s + budget_s
        # Without the server the work goes on: it may still be of use later, and every later write is fenced.
        with suppress(QueueUnavailable):
            self._held = self._queue.progress(self._job_id, self._attempt, done, steps)
        self._check(steps - done, step_s)

    def _check(self, steps_left: int, step_s: float) -> None:
        if self._held != "ok":
            raise Interrupted(self._held)
        if steps_left and must_hand_back(self._stop_at_s(), time.monotonic(), steps_left, step_s):
            raise Interrupted("handed_back")

    def _keep(self) -> None:
        while not self._left.wait(self._period_s):
            if time.monotonic() > self._progress_until_s or self._held == "lost":
                continue
            try:
                self._held = self._queue.renew(self._job_id, self._attempt)
            except QueueUnavailable:
                continue
            except Exception:
                log.exception("the lease of job %s was not renewed; the next try is soon", self._job_id)
