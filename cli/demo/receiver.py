"""A webhook receiver as a customer would write it: checks the signature, then reads the job while the call waits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

from cli.client import Client
from shared.errors import HotslotError

HOST = "127.0.0.1"
EVERYWHERE = "0.0.0.0"  # noqa: S104
MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Received:
    """One call. ``fault``: why it is not a good one; ``read_status``: the job's status as read during the call."""

    event_id: str
    event_type: str = ""
    job_id: str = ""
    read_status: str = ""
    fault: str = ""


class Receiver(ThreadingHTTPServer):
    """Collects calls, sent to the name or address ``host``, and asks a client of the API about each."""

    daemon_threads = True

    def __init__(self, client: Client, secret: str, host: str = HOST) -> None:
        # The name that others know this machine by may mean nothing here, so it cannot be listened on.
        super().__init__((HOST if host == HOST else EVERYWHERE, 0), _Handler)
        self._host = host
        self._client = client
        self._webhook = Webhook(secret)
        self._calls: list[Received] = []
        self._changed = Condition()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self._host}:{self.server_port}/webhook"

    def wait(self, count: int, timeout_s: float) -> list[Received]:
        """All calls, once there are ``count`` or after the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._calls) >= count, timeout_s)
            return list(self._calls)

    def take(self, body: bytes, headers: Mapping[str, str]) -> Received:
        """Judge one call and remember it."""
        received = self._judge(body, headers)
        with self._changed:
            self._calls.append(received)
            self._changed.notify_all()
        return received

    def _judge(self, body: bytes, headers: Mapping[str, str]) -> Received:
        event_id = headers.get("webhook-id", "")
        try:
            self._webhook.verify(body, dict(headers))
            event: dict[str, Any] = json.loads(body)
            kind, job_id = str(event["type"]), str(event["data"]["id"])
            return Received(event_id, kind, job_id, self._client.job(job_id).status.value)
        except WebhookVerificationError as error:
            return Received(event_id, fault=f"the signature is not right ({error})")
        except (ValueError, KeyError, TypeError) as error:
            return Received(event_id, fault=f"the body cannot be read ({type(error).__name__})")
        except HotslotError as error:
            return Received(event_id, fault=f"the job could not be read ({error.message})")


class _Handler(BaseHTTPRequestHandler):
    server: Receiver
    timeout = 10

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(min(length, MOST_BYTES))
        headers = {name.lower(): value for name, value in self.headers.items()}
        received = self.server.take(body, headers)
        self.send_response(400 if received.fault else 204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the terminal belongs to the demo."""


@contextmanager
def running_receiver(client: Client, secret: str, host: str = HOST) -> Iterator[Receiver]:
    """A receiver on a free port of this machine, which its callers know as ``host``."""
    with Receiver(client, secret, host) as receiver:
        thread = Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.05}, name="receiver", daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.shutdown()
            thread.join()


def webhook_fault(calls: list[Received], job_id: str, event_type: str) -> str | None:
    """What is wrong with the calls, or None: at least one, all of one event, each good and readable as ended."""
    if not calls:
        return "the webhook never came"
    for call in calls:
        if call.fault:
            return f"webhook {call.event_id or 'without id'}: {call.fault}"
        if (call.job_id, call.event_type) != (job_id, event_type):
            return f"webhook {call.event_id} tells of {call.event_type} {call.job_id}, which nobody asked for"
        if f"job.{call.read_status}" != event_type:
            return f"webhook {call.event_id} says {event_type}, but the job was {call.read_status} to its reader"
    if len({call.event_id for call in calls}) > 1:
        return "one event came under several ids"
    return None
