"""A webhook receiver that fails a third of its calls, in several ways, and remembers all of them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

from standardwebhooks import Webhook, WebhookVerificationError

HOST = "127.0.0.1"
MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Call:
    """One call of the receiver. ``job_id`` and ``type`` are empty where the signature is not right."""

    event_id: str
    job_id: str
    type: str
    body_sha256: str
    taken: bool
    """Whether it was answered with success."""


def failures_of(event_id: str) -> int:
    """How many calls of this event fail before one is taken: 0, 1 or 2, half a call on average.

    So a third of all calls fail, and yet the last retry of every event comes within half a minute.
    """
    share = hashlib.sha256(event_id.encode()).digest()[0] / 256
    return 0 if share < 0.6 else 1 if share < 0.9 else 2


class Receiver(ThreadingHTTPServer):
    """Collects calls; ``secret`` is that of the sender."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, secret: str) -> None:
        super().__init__((HOST, 0), _Handler)
        self._webhook = Webhook(secret)
        self._calls: list[Call] = []
        self._times: Counter[str] = Counter()
        self._lock = Lock()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{HOST}:{self.server_port}/webhook"

    @property
    def calls(self) -> list[Call]:
        """All calls so far."""
        with self._lock:
            return list(self._calls)

    def take(self, body: bytes, headers: Mapping[str, str]) -> Call:
        """Remember one call and say whether to take it."""
        event_id = headers.get("webhook-id", "")
        job_id, kind = self._read(body, headers)
        with self._lock:
            self._times[event_id] += 1
            taken = bool(job_id) and self._times[event_id] > failures_of(event_id)
            call = Call(event_id, job_id, kind, hashlib.sha256(body).hexdigest(), taken)
            self._calls.append(call)
        return call

    def _read(self, body: bytes, headers: Mapping[str, str]) -> tuple[str, str]:
        try:
            self._webhook.verify(body, dict(headers))
        except WebhookVerificationError:
            return "", ""
        event = json.loads(body)
        return str(event["data"]["id"]), str(event["type"])


class _Handler(BaseHTTPRequestHandler):
    server: Receiver
    timeout = 10

    def do_POST(self) -> None:
        body = self.rfile.read(min(int(self.headers.get("content-length") or 0), MOST_BYTES))
        call = self.server.take(body, {name.lower(): value for name, value in self.headers.items()})
        if not call.taken and call.body_sha256[0] in "01234567":
            # Taken to heart, but the sender never hears of it.
            self.close_connection = True
            return
        self.send_response(204 if call.taken else 503)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def running_receiver(secret: str) -> Iterator[Receiver]:
    """A receiver on a free port of this machine."""
    with Receiver(secret) as receiver:
        thread = Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.05}, name="receiver", daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.shutdown()
            thread.join()
