"""The pulse of a notifier: looks for due webhooks by itself, and says that it could."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from shared.errors import QueueUnavailable
from shared.presence import BEAT_MS, Presence

log = logging.getLogger(__name__)

STALE_S = 10.0
"""After so long without ``ready`` the process no longer takes tickets."""


class Pulse:
    """Calls ``look`` at each beat in a thread of its own; while that works, ``presence`` names this host.

    Only while the process takes tickets, which ``ready`` shows by being called again and again.
    """

    def __init__(self, look: Callable[[], None], presence: Presence, host: str) -> None:
        self._look = look
        self._presence = presence
        self._host = host
        self._ready_s = -STALE_S
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stopped.set()

    def ready(self) -> bool:
        """Tickets may be taken, always; that somebody asks is the sign of life that the beat relies on."""
        self._ready_s = time.monotonic()
        return True

    def _run(self) -> None:
        while not self._stopped.wait(BEAT_MS / 1000):
            if time.monotonic() - self._ready_s < STALE_S:
                self._beat()

    def _beat(self) -> None:
        try:
            self._look()
            self._presence.report_notifier(self._host)
        except QueueUnavailable as error:
            log.debug("a beat was missed: %s", error.message)
        except Exception:
            log.exception("a beat failed")
