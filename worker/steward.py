"""The steward: a thread in the worker's parent that speaks for the worker while its child is busy, loading or dead."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.errors import Unavailable
from shared.presence import BEAT_MS, Presence
from shared.queue import Queue
from shared.server import connect_worker
from shared.settings import Settings
from worker.child import holder_of
from worker.flags import Flags
from worker.spool import Spool

log = logging.getLogger(__name__)

ROUND_S = 0.5
KILL_AFTER_S = 10.0
"""How long after the end of its grace a child that was told to stop may still be there."""


def child_lives(pid: int) -> bool:
    """Whether a child of this process still runs; does not reap it."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


@dataclass
class Steward:
    """Speaks for a worker without a loaded child, renews leases of spooled jobs, returns the jobs of a dead child.

    ``identity``: what the worker's beat always says.
    """

    name: str
    identity: Mapping[str, object]
    settings: Settings
    flags: Flags
    spool: Spool
    _stopped: threading.Event = field(default_factory=threading.Event)
    _last_beat_s: float = 0.0
    _last_renewal_s: float = 0.0
    _bereaved_of: int = 0
    _last_child: int = 0
    _is_drained: bool = False

    def start(self) -> None:
        """Begin in a daemon thread."""
        client = connect_worker(self.settings)
        self._queue = Queue(client, self.settings)
        self._presence = Presence(client)
        self._thread = threading.Thread(target=self._run, name="steward", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End: what the child still held goes back free of charge, and the worker disappears from the list."""
        self._stopped.set()
        self._thread.join(timeout=10)
        try:
            if self._last_child:
                self._queue.abandon(holder_of(self.name, self._last_child), keep=[], counted=False)
            self._queue.undrain(self.name)
            self._presence.leave(self.name)
        except Unavailable:
            log.warning("the job server does not answer; what this worker held runs out")

    def ready(self) -> bool:
        """Whether tickets may be taken: a child is loaded and lives, and neither shutdown nor drain was asked for."""
        pid = self.flags.ready_pid
        return bool(pid) and not self.flags.stop_at_s and not self._is_drained and child_lives(pid)

    def _run(self) -> None:
        while not self._stopped.wait(ROUND_S):
            try:
                self._round()
            except Unavailable:
                log.debug("steward: the job server does not answer")
            except Exception:
                log.exception("steward: a round failed")

    def _round(self) -> None:
        if self.flags.exit_status:
            os.kill(os.getpid(), signal.SIGTERM)
            self._stopped.set()
            return
        self._watch_child()
        # What it may not have it must not be woken for, because that ticket would be lost to the others.
        self._is_drained = self._queue.is_drained(self.name)
        now_s = time.monotonic()
        if now_s - self._last_renewal_s >= self.settings.lease_ms / 4000:
            self._last_renewal_s = now_s
            self._renew_spooled()
        if not self.flags.ready_pid and now_s - self._last_beat_s >= BEAT_MS / 1000:
            self._last_beat_s = now_s
            self._presence.report(self.name, **self.identity, state="stopping" if self.flags.stop_at_s else "starting")

    def _watch_child(self) -> None:
        pid, stop_at_s = self.flags.ready_pid, self.flags.stop_at_s
        if pid:
            self._last_child = pid
            if stop_at_s and time.monotonic() > stop_at_s + KILL_AFTER_S and child_lives(pid):
                log.warning("the child did not leave its job in time and is killed")
                os.kill(pid, signal.SIGKILL)
            elif not stop_at_s and not child_lives(pid):
                self.flags.ready_pid = 0
                self._bereaved_of = pid
        if self._bereaved_of:
            kept = [spooled.job_id for spooled in self.spool.pending()]
            for job in self._queue.abandon(holder_of(self.name, self._bereaved_of), keep=kept, counted=True):
                log.warning("job %s returned: the child died with it", job)
            self._bereaved_of = 0

    def _renew_spooled(self) -> None:
        oldest_s = time.time() - 2 * self.settings.upload_budget_s
        for spooled in self.spool.pending():
            if spooled.spooled_at_s > oldest_s:
                self._queue.renew(spooled.job_id, spooled.attempt)
