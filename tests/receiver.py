"""A webhook receiver on this machine that answers as a test tells it to and remembers what it got."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

WAIT_S = 60.0


@dataclass(frozen=True)
class Received:
    """One request; header names are lower-case."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


Answer = Callable[[Received, "Handler"], None]


def status(code: int, **headers: str) -> Answer:
    """Answer with this status and no body."""

    def answer(received: Received, handler: Handler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", "0")
        handler.end_headers()

    return answer


def hang(received: Received, handler: Handler) -> None:
    """An answer that does not come before the test ends."""
    handler.server.receiver.leave.wait(WAIT_S)


class Receiver:
    """Answers the first request with the first answer and so on; the last answer repeats."""

    def __init__(self, *answers: Answer) -> None:
        self.received: list[Received] = []
        self.answered = 0
        self.leave = threading.Event()
        """Set when the test ends, so that answers which hang can stop."""
        self._answers = answers or (status(204),)
        self._changed = threading.Condition()
        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.receiver = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def wait_for(self, number: int) -> list[Received]:
        """What was received, once that is as many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.received) >= number, WAIT_S), self.received
            return list(self.received)

    def take(self, received: Received, handler: Handler) -> None:
        with self._changed:
            answer = self._answers[min(len(self.received), len(self._answers) - 1)]
            self.received.append(received)
            self._changed.notify_all()
        try:
            answer(received, handler)
        except OSError:
            # The sender may hang up on an answer that takes too long.
            handler.close_connection = True
        with self._changed:
            self.answered += 1
            self._changed.notify_all()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    receiver: Receiver
    # Twenty connections at once must not be refused.
    request_queue_size = 64


class Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.receiver.take(Received(self.path, headers, body), self)

    def do_GET(self) -> None:
        self.server.receiver.take(Received(self.path, {}, b""), self)

    def log_message(self, form: str, *arguments: object) -> None:
        """Keep the tests quiet."""


def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    end_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end_s, "this did not come about in time"
        time.sleep(0.02)
