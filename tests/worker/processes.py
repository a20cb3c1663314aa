"""Real worker processes for tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 120.0


def wait_for(what: str, look: Callable[[], T | None], patience_s: float = PATIENCE_S) -> T:
    """The first answer of ``look`` that is not None or False."""
    until_s = time.monotonic() + patience_s
    while time.monotonic() < until_s:
        found = look()
        if found is not None and found is not False:
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {patience_s:.0f} s in vain for {what}")


@dataclass
class WorkerProcess:
    """``python -m worker`` with its log in a file."""

    process: subprocess.Popen[bytes]
    log_path: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def children(self) -> list[int]:
        return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]

    def term(self) -> int:
        """SIGTERM to the whole group, as service managers send it; the exit status."""
        os.killpg(self.pid, signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        """SIGKILL to the parent and the child at once, as when a machine is lost."""
        for pid in (self.pid, *self.children()):
            os.kill(pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)


@dataclass
class Yard:
    """Starts workers that share a server, a store and a data folder, and ends them all."""

    environment: dict[str, str]
    folder: Path
    started: list[WorkerProcess] = field(default_factory=list)

    def start(self, *arguments: str) -> WorkerProcess:
        log_path = self.folder / f"worker-{len(self.started)}.log"
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "worker", *arguments],
                env=os.environ | self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        worker = WorkerProcess(process, log_path)
        self.started.append(worker)
        return worker

    def close(self) -> None:
        for worker in self.started:
            if worker.process.poll() is None:
                worker.kill()


@contextmanager
def yard(folder: Path, redis_url: str, **settings: str) -> Iterator[Yard]:
    """A yard whose workers get these settings (names without the prefix)."""
    values = {
        "redis_url": redis_url,
        "data_folder": str(folder / "data"),
        "cache_folder": str(folder / "cache"),
        **settings,
    }
    made = Yard({f"HOTSLOT_{name.upper()}": value for name, value in values.items()}, folder)
    try:
        yield made
    finally:
        made.close()
