"""The next job: while one is denoised, a thread chooses, marks and makes ready the one that will probably follow.

The choice is the policy's own, on what is known now. Jobs that come meanwhile can prove it wrong, which costs nothing
but the preparation: a mark is no lease (see ``Queue.reserve``), and the worker claims as it always does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from shared.errors import HotslotError
from shared.job import Job
from shared.queue import Queue
from worker.busy import Busy
from worker.choose import Here, Limits, Pace, choose
from worker.rounds import Rounds
from worker.supply import Supply

log = logging.getLogger(__name__)


class NextJob:
    """One job at a time. ``make_ready`` is called once with each job that is marked, in this thread.

    ``stop_at_s`` tells the monotonic time by which this process must end, or 0.
    """

    def __init__(
        self,
        base_model: str,
        worker: str,
        queue: Queue,
        supply: Supply,
        limits: Limits,
        busy: Busy,
        stop_at_s: Callable[[], float],
        make_ready: Callable[[Job], None],
    ) -> None:
        self._base_model = base_model
        self._worker = worker
        self._queue = queue
        self._supply = supply
        self._limits = limits
        self._busy = busy
        self._stop_at_s = stop_at_s
        self._make_ready = make_ready
        self._view: tuple[Here, Pace] | None = None
        self._ready: str | None = None
        self._rounds = Rounds("next job", self.round)

    def start(self) -> None:
        """Begin."""
        self._rounds.start()

    def stop(self) -> None:
        """End; a mark that is left runs out."""
        self._rounds.stop()

    def look_ahead(self, here: Here, pace: Pace) -> None:
        """A job begins to be denoised; ``here`` as it will be once it is done."""
        self._view = here, pace
        self._rounds.wake()

    def rest(self) -> None:
        """The denoiser is free: what comes next is claimed now, and nothing is marked meanwhile."""
        self._view = None

    def round(self) -> None:
        """Choose, mark and make ready, or renew the mark. Raises ``QueueUnavailable`` if the server is not reached."""
        view = self._view
        if view is None:
            return
        here, pace = view
        groups = self._queue.look(self._base_model, here.resident, self._worker)
        self._busy.waits(bool(groups))
        choice = choose(groups, replace(here, warm=self._supply.warm()), pace, self._limits)
        if choice is None or self._stop_at_s():
            self._queue.unreserve(self._base_model, self._worker)
            return
        job = self._queue.reserve(self._base_model, choice.group, self._worker)
        if job is None or job.id == self._ready or self._view is not view:
            return
        self._ready = job.id
        try:
            self._make_ready(job)
        except HotslotError as error:
            # The job itself will meet it.
            log.info("job %s was not made ready: %s", job.id, error.message)
