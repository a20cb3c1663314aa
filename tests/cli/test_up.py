"""The whole service, as a person starts and stops it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import pytest
from PIL import Image

from cli.client import Client
from cli.stack import free_port
from shared.job import Status
from tests.cli.api_server import ApiServer
from tests.cli.patience import lives, until

ROOT = Path(__file__).parents[2]
START_S = 240.0
"""The built-in model may have to be made first."""


@dataclass
class Up:
    """A running ``hotslot up``."""

    process: subprocess.Popen[str]
    url: str
    environment: dict[str, str]
    lines: list[str]

    def says(self, words: str) -> bool:
        return any(words in line for line in self.lines)

    def hotslot(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cli.main", *arguments, "--url", self.url]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=START_S)

    def family(self) -> list[int]:
        """Process ids of all that it started."""
        found: list[int] = []
        look_at = [self.process.pid]
        while look_at:
            pid = look_at.pop()
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            look_at += map(int, children)
            found += map(int, children)
        return found


@contextmanager
def running_up(data: Path, *arguments: str) -> Iterator[Up]:
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOTSLOT_")}
    environment |= {"HOTSLOT_CACHE_FOLDER": str(data / "cache"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "cli.main", "up", "--port", str(port), "--data", str(data), *arguments]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    up = Up(process, f"http://127.0.0.1:{port}", environment, [])

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            up.lines.append(line.rstrip())

    reader = Thread(target=read, daemon=True)
    reader.start()
    try:
        until(lambda: up.says("ready: ") or process.poll() is not None, START_S)
        yield up
    finally:
        process.kill()
        process.wait()
        reader.join()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "a folder with spaces"


def test_submit_watch_and_stop(data: Path, tmp_path: Path) -> None:
    with running_up(data) as up:
        assert up.says(f"ready: {up.url} serves tiny-flux"), up.lines
        image = tmp_path / "out" / "circle.png"
        done = up.hotslot(
            "submit", "a red circle on a blue background", "--adapter", "night:0.5", "--seed", "7", "-o", str(image)
        )
        assert done.returncode == 0, done.stderr
        job_id = done.stdout.strip()
        with Client(up.url) as client:
            job = client.job(job_id)
        assert job.status is Status.SUCCEEDED
        assert [(adapter.source, adapter.scale) for adapter in job.adapters] == [("night", 0.5)]
        assert hashlib.sha256(image.read_bytes()).hexdigest() == job.images[0].sha256
        with Image.open(image) as opened:
            assert (opened.format, opened.size) == ("PNG", (job.width, job.height))

        watched = up.hotslot("watch", job_id, "--json")
        assert (watched.returncode, json.loads(watched.stdout)["id"]) == (0, job_id)
        shown = up.hotslot("queues")
        assert shown.returncode == 0
        assert "idle" in shown.stdout

        refused = up.hotslot("submit", "a fox", "--adapter", "night", "--width", "72")
        assert refused.returncode == 1
        assert refused.stderr.startswith("hotslot: width: 72 is not allowed")
        assert "Traceback" not in refused.stderr

        family = up.family()
        assert len(family) >= 8, "four programs with their keepers"
        up.process.send_signal(signal.SIGINT)
        assert up.process.wait(START_S) == 0
        assert not any(map(lives, family))


def test_what_dies_is_restarted_and_nothing_survives_a_killed_supervisor(data: Path) -> None:
    with running_up(data) as up:
        assert up.says("ready: "), up.lines
        secrets = [(data / "secrets" / name).read_text() for name in ("signing-key", "webhook-secret")]
        assert not any(secret.strip() in line for secret in secrets for line in up.lines)
        with Client(up.url) as client:
            (worker,) = client.workers().workers
        pid = int(worker.name.rpartition("@")[0].rpartition("-")[2])
        os.kill(pid, signal.SIGKILL)
        until(lambda: up.says("worker-tiny-flux was killed (SIGKILL); starting it again in 1 s"))
        until(lambda: not lives(pid))

        family = up.family()
        up.process.kill()
        until(lambda: not any(map(lives, family)))

    with running_up(data) as up:
        assert up.says("ready: "), up.lines
        assert [(data / "secrets" / name).read_text() for name in ("signing-key", "webhook-secret")] == secrets
        up.process.send_signal(signal.SIGTERM)
        assert up.process.wait(START_S) == 0


def test_a_port_that_is_taken_is_one_sentence(data: Path, api: ApiServer) -> None:
    command = [sys.executable, "-m", "cli.main", "up", "--port", str(api.server_port), "--data", str(data)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=START_S)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"hotslot: Port {api.server_port} cannot be used")
    assert done.stderr.count("\n") == 1
