"""Runs one command for exactly as long as the process that asked for it lives.

Started as a script: ``python embedded_keeper.py OWNER_PID COMMAND…``. It writes the command's process id as one line,
then waits until the command ends, standard input is closed, or the owner has gone; what the command started ends
with it. The command leads a process group of its own and writes to standard error only.

A parent-death signal would be shorter, but it fires when the *thread* that forked ends, and only on Linux.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress

GLANCE_S = 0.25
"""How often the command and the owner are looked at."""
STOP_S = 30.0
"""How long the command may take to write its data away before it is killed."""


def main(owner: int, command: list[str]) -> int:
    """Keep ``command`` for the process ``owner``; return the command's exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    child = subprocess.Popen(  # noqa: S603 - the command is the owner's
        command, stdin=subprocess.DEVNULL, stdout=sys.stderr, process_group=0
    )
    try:
        sys.stdout.write(f"{child.pid}\n")
        sys.stdout.close()
        while child.poll() is None and not _owner_left(owner):
            pass
    finally:
        _stop(child)
    return child.returncode


def _owner_left(owner: int) -> bool:
    # The pipe tells at once; the parent's id tells also when a fork of the owner still holds the pipe open.
    closed, _, _ = select.select([sys.stdin], [], [], GLANCE_S)
    return bool(closed) or os.getppid() != owner


def _stop(child: subprocess.Popen[bytes]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child.terminate()
    try:
        child.wait(STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
