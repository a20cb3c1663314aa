"""The real app under the real server, in a thread, and the worker's side of the queue beside it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import httpx2
import redis

from api.deps import Services
from api.main import create_app
from api.serving import Server
from shared.job import ImageRecord, Job, Result
from shared.presence import Presence, State
from shared.queue import Queue
from shared.registry import RegisteredAdapter, Registry
from shared.server import connect_worker
from shared.settings import Settings
from tests.shared.jobs import result

BASE = "tiny-flux"
PROBLEM = "application/problem+json"
PNG = b"\x89PNG\r\n\x1a\n and so on"


@dataclass(frozen=True)
class Live:
    """A served app. ``queue`` is what a worker would use; ``http`` does not follow redirects."""

    settings: Settings
    services: Services
    http: httpx2.Client
    url: str
    queue: Queue
    redis: redis.Redis

    def register(self, *names: str, rank: int = 8, base_model: str = BASE) -> None:
        registry = Registry(self.redis)
        for name in names:
            digest = sha256(name.encode()).hexdigest()
            registry.put(
                RegisteredAdapter(
                    name=name, base_model=base_model, sha256=digest, location=f"builtin:{name}", rank=rank
                )
            )

    def worker(self, name: str = "w1", state: State = "idle") -> None:
        Presence(self.redis).report(name, base_model=BASE, state=state)

    def submit(self, **body: Any) -> dict[str, Any]:
        response = self.http.post("/v1/jobs", json={"prompt": "a fox", "base_model": BASE} | body)
        assert response.status_code == 202, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def get(self, job_id: str, **params: Any) -> dict[str, Any]:
        response = self.http.get(f"/v1/jobs/{job_id}", params=params)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def claim(self, job_id: str) -> Job:
        """Claim the job, which must be the head of its group."""
        job = self.queue.claim(BASE, self.queue.get(job_id).group, "w1")
        assert isinstance(job, Job)
        assert job.id == job_id
        return job

    def succeed(self, job: Job) -> Result:
        """Store one image and end a claimed job with it."""
        made = result(job.id, job.attempt)
        image: ImageRecord = made.images[0].model_copy(update={"sha256": sha256(PNG).hexdigest()})
        self.services.store.put(image.key, PNG, image.content_type)
        made = made.model_copy(update={"images": [image]})
        assert self.queue.succeed(job.id, job.attempt, made, []) == "ok"
        return made


@contextmanager
def serving(settings: Settings) -> Iterator[Live]:
    """Serve the app at a free port; its public URL is that address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        app = create_app(settings.model_copy(update={"public_url": url}))
        server = Server(app, "127.0.0.1", 0)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            until(lambda: server.started or not thread.is_alive())
            assert server.started
            client = connect_worker(settings)
            with httpx2.Client(base_url=url, timeout=60) as http, client:
                services = app.state.services
                yield Live(services.settings, services, http, url, Queue(client, settings), client)
        finally:
            server.should_exit = True
            thread.join(timeout=60)
        assert not thread.is_alive()


def until(true: Callable[[], bool], patience_s: float = 30) -> None:
    """Wait until something is so."""
    end_s = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < end_s, "it did not become so in time"
        time.sleep(0.01)


def problem_of(response: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """The problem that a response must be."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == PROBLEM
    body: dict[str, Any] = response.json()
    assert body["status"] == status
    assert body["code"] == code
    assert body["type"] == f"urn:hotslot:error:{code}"
    assert {"title", "detail", "retryable"} <= body.keys()
    return body
