"""Starts a program that cannot outlive this process, and hands on every line that it says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from shared import embedded_keeper
from shared.errors import Misconfigured

Say = Callable[[str, str], None]
"""Takes the name of a process and one line of what it said; called from several threads."""

READ_S = 5.0
"""How long to go on reading what an ended program still has in its pipe."""


@dataclass(frozen=True)
class Command:
    """What to run under which name, with exactly this environment."""

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path | None = None
    """Working folder; None: this process's own."""


class Process:
    """One program with a keeper, which ends it and whatever it started when this process is gone, even by kill -9.

    It is in a session of its own, so that the terminal's Ctrl-C reaches only this process.
    """

    def __init__(self, command: Command, say: Say) -> None:
        self.name = command.name
        self.last_words = ""
        self._say = say
        self._keeper = _keep(command)
        self.pid = _read_pid(self._keeper)
        self._reader = Thread(target=self._read, name=f"log of {command.name}", daemon=True)
        self._reader.start()

    def status(self) -> int | None:
        """Exit status, minus the signal's number for a killed program; None while it runs."""
        if self._keeper.poll() is None:
            return None
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()
        with suppress(ProcessLookupError):
            # The keeper does this too, unless it was killed itself.
            os.killpg(self.pid, signal.SIGKILL)
        return _as_signal(self._keeper.returncode)

    def wait(self, timeout_s: float) -> int | None:
        """Exit status, or None when it still runs after this time. All that it said has then been handed on."""
        with suppress(subprocess.TimeoutExpired):
            self._keeper.wait(timeout_s)
            self._reader.join(READ_S)
        return self.status()

    def terminate(self) -> None:
        """Ask the program itself to end; what it has started is its own affair."""
        self._signal(os.kill, signal.SIGTERM)

    def kill(self) -> None:
        """End it and whatever it started, at once."""
        self._signal(os.killpg, signal.SIGKILL)

    def _signal(self, send: Callable[[int, int], None], number: int) -> None:
        if self._keeper.poll() is None:
            with suppress(ProcessLookupError):
                send(self.pid, number)

    def _read(self) -> None:
        if self._keeper.stderr is None:
            return
        with self._keeper.stderr as said:
            for raw in said:
                line = raw.decode(errors="replace").rstrip()
                if line:
                    self.last_words = line
                    self._say(self.name, line)


def _keep(command: Command) -> subprocess.Popen[bytes]:
    keeper = [sys.executable, "-I", "-S", embedded_keeper.__file__, str(os.getpid()), *command.arguments]
    return subprocess.Popen(  # noqa: S603 - programs that this package chose
        keeper,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(command.environment),
        cwd=command.folder,
        start_new_session=True,
    )


def _read_pid(keeper: subprocess.Popen[bytes]) -> int:
    line = b""
    if keeper.stdout is not None:
        with keeper.stdout as said:
            line = said.readline()
    if line:
        return int(line)
    _, words = keeper.communicate()
    reason = words.decode(errors="replace").strip().splitlines()
    raise Misconfigured(f"A program could not be started: {reason[-1] if reason else 'no reason was given'}.")


def _as_signal(status: int) -> int:
    # The keeper passes on a killed program's -9 as an exit status, which has eight bits.
    return status - 256 if status > 256 - signal.NSIG else status
