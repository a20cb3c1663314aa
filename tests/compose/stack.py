"""A stack of docker-compose.yml under a project name, ports and volumes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from cli.client import Client
from shared.errors import Unavailable
from shared.view import JobView

ROOT = Path(__file__).parents[2]
PROJECT = "hotslot-tests"
API_PORT, STORE_PORT = 18000, 18333
URL = f"http://127.0.0.1:{API_PORT}"
# For a machine that has more to do than this.
LONGEST_S = 1800.0

Found = TypeVar("Found")


@dataclass
class ComposeStack:
    """``files`` come after docker-compose.yml; ``environment`` beside what this process has."""

    files: list[Path] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    def compose(self, *words: str, **more: str) -> str:
        """Run ``docker compose``, with ``more`` in its environment; what it prints. Fails with all that it said."""
        given = [word for file in (ROOT / "docker-compose.yml", *self.files) for word in ("-f", str(file))]
        return docker("compose", "-p", PROJECT, *given, *words, environment=_ports() | self.environment | more)

    def up(self, *words: str, **more: str) -> None:
        """Start all that is not there as it should be, and wait until it is healthy."""
        self.compose("up", "-d", "--wait", "--wait-timeout", str(round(LONGEST_S)), *words, **more)

    def containers(self, service: str) -> list[dict[str, Any]]:
        """The containers of a service, as ``docker inspect`` shows them."""
        ids = self.compose("ps", "-a", "-q", service).split()
        return sorted(json.loads(docker("inspect", *ids)), key=lambda one: str(one["Name"])) if ids else []

    def container(self, service: str) -> str:
        """The name of its first container."""
        return str(self.containers(service)[0]["Name"]).lstrip("/")


def docker(*words: str, environment: Mapping[str, str] | None = None) -> str:
    """Run ``docker``; what it prints. Fails with all that it said."""
    done = subprocess.run(
        ["docker", *words],
        cwd=ROOT,
        env=os.environ | dict(environment or {}),
        capture_output=True,
        text=True,
        timeout=2 * LONGEST_S,
    )
    assert done.returncode == 0, f"docker {' '.join(words)}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


def _ports() -> dict[str, str]:
    return {
        "API_PORT": str(API_PORT),
        "STORE_PORT": str(STORE_PORT),
        "HOTSLOT_PUBLIC_URL": URL,
        "HOTSLOT_S3_PUBLIC_ENDPOINT_URL": f"http://127.0.0.1:{STORE_PORT}",
    }


def until(what: str, look: Callable[[], Found | None]) -> Found:
    """The first true answer of ``look``, which may find the API away for a while."""
    end_s = time.monotonic() + LONGEST_S
    while time.monotonic() < end_s:
        try:
            if found := look():
                return found
        except Unavailable:
            pass
        time.sleep(0.5)
    raise AssertionError(f"waited in vain for {what}")


def ended(client: Client, job_id: str) -> JobView:
    """The job once it has ended."""

    def look() -> JobView | None:
        job = client.job(job_id, wait_s=2)
        return job if job.status.terminal else None

    return until(f"the end of job {job_id}", look)
