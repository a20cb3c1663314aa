"""A small HTTP server that answers as the test says, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from shared.job import Job, JobSpec, PinnedAdapter, Status
from shared.view import job_view


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Reply:
    """One answer; ``cut``: the connection ends before the announced length."""

    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False


class ApiServer(ThreadingHTTPServer):
    """Set ``answer`` before the first request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[Asked] = []
        self.answer: Callable[[Asked], Reply] = lambda asked: Reply(status=500)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: ApiServer

    def _handle(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.command, self.path, headers, self.rfile.read(length))
        self.server.asked.append(asked)
        reply = self.server.answer(asked)
        self.send_response(reply.status)
        self.send_header("content-type", reply.content_type)
        self.send_header("content-length", str(len(reply.body) + (1 if reply.cut else 0)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def running_api_server() -> Iterator[ApiServer]:
    with ApiServer() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


JOB_ID = "01KJ9QZ7W5V0T3N8M2C4X6B1AD"


def job_record(status: Status = Status.SUCCEEDED, **changes: Any) -> Job:
    """A job's record with one adapter."""
    spec = JobSpec(
        prompt="a fox",
        base_model="tiny-flux",
        adapters=[PinnedAdapter(source="night", scale=1.0, sha256="ab" * 32, location="builtin:night")],
        width=128,
        height=128,
        steps=8,
        guidance_scale=3.5,
        seed=7,
        num_images=1,
        format="png",
    )
    record = Job(
        id=JOB_ID,
        version=1,
        status=status,
        base_model="tiny-flux",
        group="abababababababab",
        spec=spec,
        created_ms=1_700_000_000_000,
        rank_ms=1_700_000_000_000,
    )
    return record.model_copy(update=changes)


def job_reply(url: str, status: Status = Status.SUCCEEDED, **changes: Any) -> Reply:
    """The job as the API shows it."""
    return Reply(job_view(job_record(status, **changes), url).model_dump_json().encode())


def problem(status: int, code: str, detail: str, *, retryable: bool = False) -> Reply:
    """An error as the API shows it."""
    body = f'{{"status": {status}, "code": "{code}", "detail": "{detail}", "retryable": {str(retryable).lower()}}}'
    return Reply(body.encode(), status, "application/problem+json")
