"""Work that is looked for again and again beside the jobs, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from shared.errors import Unavailable

log = logging.getLogger(__name__)

GLANCE_S = 1.0
"""So often a round begins by itself."""
STOP_S = 2.0


class Rounds:
    """Calls ``round`` when woken, and once a second; whatever goes wrong in one, the next comes."""

    def __init__(self, name: str, round: Callable[[], None]) -> None:
        self._name = name
        self._round = round
        self._stopped = threading.Event()
        self._woken = threading.Event()
        # A daemon, so that a source that hangs does not hold up the end of the process.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; a round that does not is left behind."""
        self._stopped.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def wake(self) -> None:
        """Begin a round now, or right after the one that is under way."""
        self._woken.set()

    @property
    def stopped(self) -> bool:
        """Whether it was told to end."""
        return self._stopped.is_set()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._woken.wait(GLANCE_S)
            self._woken.clear()
            if self._stopped.is_set():
                return
            try:
                self._round()
            except Unavailable as error:
                log.debug("%s: a round was missed: %s", self._name, error.message)
            except Exception:
                log.exception("%s: a round failed", self._name)
