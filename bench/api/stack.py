"""The server, one API process and, while they are needed, one idle worker of each kind."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import SecretStr

from bench.api.bare_celery import BareCelery
from bench.api.load import Caller, Loaded, load
from cli.client import Client
from cli.environment import for_python, with_decided, without_settings
from cli.log_lines import FileLog
from cli.processes import Command, Process
from cli.stack import HOST, free_port
from shared.embedded import EmbeddedServer
from shared.errors import Misconfigured, Unavailable
from shared.registry import RegisteredAdapter, Registry
from shared.server import connect_worker
from shared.settings import Settings

BASE_MODEL = "tiny-flux"
START_S = 300.0
STOP_S = 60.0
GLANCE_S = 0.2
SMALLEST = {"prompt": "a red circle", "base_model": BASE_MODEL, "width": 64, "height": 64, "steps": 1, "seed": 1}
REGISTERED = 1000
"""Adapters that are registered by name, as in a service with many."""
CLOCK_S = 0.0005
"""The record's times are whole milliseconds, rounded down; half of one is added."""


class Bench:
    """Use as a context manager: ends what it started."""

    def __init__(self, folder: Path, logs: Path) -> None:
        self._log = FileLog(logs)
        self._server = EmbeddedServer.start(folder / "valkey")
        self._port = free_port()
        self._decided = {
            "redis_url": self._server.url,
            "data_folder": str(folder / "data"),
            "public_url": f"http://{HOST}:{self._port}",
            "signing_key": secrets.token_urlsafe(32),
        }
        self._workers: list[Process] = []
        self._api = self._process("api", "api", "--host", HOST, "--port", str(self._port))
        self._client = Client(f"http://{HOST}:{self._port}")
        self._caller = Caller(HOST, self._port)
        self._ids: list[str] = []
        self.bare = BareCelery(self._server.url)
        self._await(lambda: bool(self._client.queues()))
        _register(Settings(redis_url=SecretStr(self._server.url)))

    def start_workers(self) -> None:
        """Start both and wait until each has served once."""
        self._workers = [
            self._process("worker", "worker", "--base-model", BASE_MODEL),
            self._process("bare", "bench.api.bare_celery", self._server.url),
        ]
        self._await(lambda: any(worker.takes_jobs for worker in self._client.workers().workers))
        for _ in range(3):
            self.claimed_after_s()
            self.bare.start_after_s(START_S)

    def stop_workers(self) -> None:
        """Stop both."""
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            if worker.wait(STOP_S) is None:
                worker.kill()
        self._workers = []

    def claimed_after_s(self) -> float:
        """Seconds from sending one job until a worker has it; returns when the job has ended and the worker idles."""
        sent_s = time.time()
        job_id = self._caller.ask("POST", "/v1/jobs", json.dumps(SMALLEST).encode())["id"]
        ended = self._caller.ask("GET", f"/v1/jobs/{job_id}?wait=60")
        if ended["status"] != "succeeded":
            raise Misconfigured(f"A job {ended['status']}: {ended['error']}")
        return datetime.fromisoformat(ended["started_at"]).timestamp() + CLOCK_S - sent_s

    def post(self, callers: int, requests: int) -> Loaded:
        """Submits, each with one adapter, to a base model that nobody serves."""

        def submit(caller: Caller, number: int) -> None:
            body = SMALLEST | {"adapters": [{"source": f"adapter-{number % REGISTERED}"}]}
            self._ids.append(caller.ask("POST", "/v1/jobs", json.dumps(body).encode())["id"])

        return load(self._open, callers, requests, submit, self._pids)

    def get(self, callers: int, requests: int) -> Loaded:
        """Reads of jobs that wait."""
        return load(
            self._open,
            callers,
            requests,
            lambda caller, number: caller.ask("GET", f"/v1/jobs/{self._ids[number % len(self._ids)]}"),
            self._pids,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop_workers()
        self._caller.close()
        self._client.close()
        self._api.terminate()
        if self._api.wait(STOP_S) is None:
            self._api.kill()
        self._server.stop()
        self._log.close()

    @property
    def _pids(self) -> dict[str, int]:
        return {"api": self._api.pid, "valkey": self._server.pid, "callers": os.getpid()}

    def _open(self) -> Caller:
        return Caller(HOST, self._port)

    def _process(self, name: str, *arguments: str) -> Process:
        environment = for_python(with_decided(without_settings(os.environ), self._decided))
        return Process(Command(name, (sys.executable, "-P", "-m", *arguments), environment), self._log)

    def _await(self, look: Callable[[], bool]) -> None:
        until_s = time.monotonic() + START_S
        while time.monotonic() < until_s:
            try:
                if look():
                    return
            except Unavailable:
                pass
            time.sleep(GLANCE_S)
        raise Misconfigured(f"The stack did not come up within {START_S:.0f} s.")


def _register(settings: Settings) -> None:
    registry = Registry(connect_worker(settings))
    for number in range(REGISTERED):
        name = f"adapter-{number}"
        sha256 = hashlib.sha256(name.encode()).hexdigest()
        registry.put(
            RegisteredAdapter(name=name, base_model=BASE_MODEL, sha256=sha256, location=f"builtin:{name}", rank=4)
        )
