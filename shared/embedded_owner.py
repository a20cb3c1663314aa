"""Who owns the folder of an embedded server: a lock while the owner lives, a pid file for what a dead one left."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import IO

from shared.embedded_keeper import STOP_S
from shared.errors import Misconfigured


def own(folder: Path) -> IO[str]:
    """Return a lock that ends with this process. Unlike flock, a record lock is not handed on to forks."""
    lock = (folder / "owner.lock").open("a")
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise Misconfigured(
            f"Another Hotslot is running with the folder {folder}: stop it, or choose another data folder."
        ) from error
    return lock


def end_stale(folder: Path) -> None:
    """Shut down the server of an earlier run in this folder, if one is still there."""
    pid = _stale_pid(folder)
    if pid is None:
        return
    for stop_signal in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(pid, stop_signal)
        except ProcessLookupError:
            return
        except PermissionError as error:
            raise Misconfigured(
                f"A server of another user (process {pid}) runs in {folder}: stop it, or use another folder."
            ) from error
        until_s = time.monotonic() + STOP_S
        while time.monotonic() < until_s:
            if _stale_pid(folder) is None:
                return
            time.sleep(0.05)
    raise Misconfigured(f"An earlier server (process {pid}) in {folder} does not end: end it by hand.")


def _stale_pid(folder: Path) -> int | None:
    """Return the id in the pid file if that process is a server on this folder, for ids are used again."""
    try:
        pid = int((folder / "server.pid").read_text())
    except (OSError, ValueError):
        return None
    command = _command_line(pid)
    return pid if "-server " in command and f" --dir {folder} --" in command else None


def _command_line(pid: int) -> str:
    """Return the arguments a process was started with; nothing for a process that is gone or a zombie."""
    if Path("/proc/self").exists():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return ""
        return words.replace(b"\0", b" ").decode(errors="surrogateescape")
    shown = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True)  # noqa: S603, S607
    return shown.stdout
