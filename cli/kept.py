"""What a stack is made of, in the form that a supervisor can start again: our programs and the embedded server."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cli.processes import Command, Process, Say
from shared.embedded import EmbeddedServer

_LOG_HEAD = re.compile(r"^\d\d:\d\d:\d\d [A-Z]+ +")


class KeptProgram:
    """A program of this package; how to run it is asked at each start, when what it relies on is there."""

    def __init__(self, name: str, compose: Callable[[], Command], say: Say) -> None:
        self.name = name
        self._compose = compose
        self._say = say
        self._process: Process | None = None

    @property
    def pid(self) -> int | None:
        """Process id of its latest start."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start it; raises SetupError."""
        self._process = Process(self._compose(), self._say)

    def status(self) -> int | None:
        """Exit status, or None while it runs."""
        return self._process.status() if self._process else 0

    def last_words(self) -> str:
        """The last line that it said, without time and level."""
        if self._process is None:
            return ""
        # The pipe may still hold lines of a program that has just ended.
        self._process.wait(0)
        return _LOG_HEAD.sub("", self._process.last_words)

    def terminate(self) -> None:
        """Ask it to end."""
        if self._process:
            self._process.terminate()

    def kill(self) -> None:
        """End it at once, with whatever it started."""
        if self._process:
            self._process.kill()


class KeptServer:
    """The embedded Valkey server. It keeps its port, because the other processes know it by that."""

    name = "valkey"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server: EmbeddedServer | None = None
        self._port: int | None = None
        self._stopped = False

    def start(self) -> None:
        """Start it and wait until it answers; raises SetupError."""
        if self._server is not None:
            self._server.stop()
        self._server = EmbeddedServer.start(self._folder, self._port)
        self._port = self._server.port

    @property
    def url(self) -> str:
        """Where it answers, for Redis clients; it must have been started."""
        if self._server is None:
            raise RuntimeError("the server was not started")
        return self._server.url

    def status(self) -> int | None:
        """1 once it has ended by itself, 0 once it was stopped, None while it runs."""
        if self._stopped or self._server is None:
            return 0
        return None if self._server.alive() else 1

    def last_words(self) -> str:
        """Where its log is."""
        return f"its log is {self._folder / 'server.log'}"

    def terminate(self) -> None:
        """Let it write its data away and end; waits for that."""
        if self._server:
            self._server.stop()
        self._stopped = True

    def kill(self) -> None:
        """End it at once."""
        if self._server:
            with suppress(ProcessLookupError):
                os.kill(self._server.pid, signal.SIGKILL)
            self.terminate()
