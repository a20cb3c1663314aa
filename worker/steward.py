"""The steward: a thread in the worker's parent that speaks for the worker while its child is busy, loading or dead."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from dataclasses import dataclass, field

from shared.errors import Unavailable
from shared.presence import BEAT_MS, Presence
from shared.queue import Queue
from shared.server import connect_worker
from shared.settings import Settings
from worker.flags import Flags
from worker.spool import Spool

log = logging.getLogger(__name__)

ROUND_S = 0.5


def child_lives(pid: int) -> bool:
    """Whether a child of this process still runs; does not reap it."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


@dataclass
class Steward:
    """Beats for the worker, renews leases of spooled jobs, returns the jobs of a child that died."""

    name: str
    base_model: str
    version: str
    settings: Settings
    flags: Flags
    spool: Spool
    _stopped: threading.Event = field(default_factory=threading.Event)
    _last_beat_s: float = 0.0
    _last_renewal_s: float = 0.0
    _bereaved: bool = False

    def start(self) -> None:
        """Begin in a daemon thread."""
        client = connect_worker(self.settings)
        self._queue = Queue(client, self.settings)
        self._presence = Presence(client)
        self._started_ms = round(time.time() * 1000)
        self._thread = threading.Thread(target=self._run, name="steward", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End; the worker disappears from the list."""
        self._stopped.set()
        self._thread.join(timeout=10)
        try:
            self._presence.leave(self.name)
        except Unavailable:
            log.debug("the worker's entry will run out")

    def ready(self) -> bool:
        """Whether tickets may be taken: a child is loaded and lives, and no shutdown was asked for."""
        pid = self.flags.ready_pid
        return bool(pid) and not self.flags.stop_at_s and child_lives(pid)

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
        pid = self.flags.ready_pid
        if pid and not child_lives(pid) and not self.flags.stop_at_s:
            self.flags.ready_pid = 0
            self._bereaved = True
        if self._bereaved:
            kept = [spooled.job_id for spooled in self.spool.pending()]
            for job in self._queue.abandon(self.name, keep=kept, counted=True):
                log.warning("job %s returned: the child died with it", job)
            self._bereaved = False
        now_s = time.monotonic()
        if now_s - self._last_renewal_s >= self.settings.lease_ms / 4000:
            self._last_renewal_s = now_s
            self._renew_spooled()
        if now_s - self._last_beat_s >= BEAT_MS / 1000:
            self._last_beat_s = now_s
            self._beat()

    def _renew_spooled(self) -> None:
        oldest_s = time.time() - 2 * self.settings.upload_budget_s
        for spooled in self.spool.pending():
            if spooled.spooled_at_s > oldest_s:
                self._queue.renew(spooled.job_id, spooled.attempt)

    def _beat(self) -> None:
        fields: dict[str, object] = {
            "base_model": self.base_model,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": self.version,
            "started_ms": self._started_ms,
        }
        if self.flags.stop_at_s:
            fields["state"] = "stopping"
        elif not self.flags.ready_pid:
            fields["state"] = "starting"
        self._presence.report(self.name, round(time.time() * 1000), **fields)
