"""The beat of a loaded child: who it is and what it holds, said again and again as long as it is there to say so."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from shared.errors import HotslotError
from shared.presence import BEAT_MS, Presence

log = logging.getLogger(__name__)


class Beat:
    """Reports all its fields at each beat, so that an outage of the server, however long, leaves nothing out.

    ``stopping`` tells whether the process was asked to stop.
    """

    def __init__(self, presence: Presence, worker: str, stopping: Callable[[], bool], fields: dict[str, Any]) -> None:
        self._presence = presence
        self._worker = worker
        self._stopping = stopping
        self._fields = fields
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="beat", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stopped.set()

    def say(self, **changes: Any) -> None:
        """Change some fields and report at once."""
        with self._lock:
            self._fields |= changes
            said = self._fields | ({"state": "stopping"} if self._stopping() else {})
            try:
                self._presence.report(self._worker, **said)
            except HotslotError as error:
                log.debug("a beat was missed: %s", error.message)

    def _run(self) -> None:
        while not self._stopped.wait(BEAT_MS / 1000):
            try:
                self.say()
            except Exception:
                log.exception("a beat failed")
