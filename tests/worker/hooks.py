"""What the tests of webhooks share: jobs that end with a webhook, on a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import redis

from shared import keys
from shared.addresses import Resolver
from shared.outbox import Outbox
from shared.queue import Queue
from shared.request import WebhookRequest
from shared.server import connect_worker, fields_of, members_of
from shared.settings import Settings
from shared.signature import new_secret
from tests.shared.jobs import end
from worker.deliver import Deliverer
from worker.notify import Notifier, lease_ms_for

SECRET = new_secret()
LONG_S = 60.0
_number = count(1)


class Hooks:
    """A server's webhook side as a test sees it. Receivers on this machine are allowed."""

    def __init__(self, redis_url: str) -> None:
        self.config = Settings.model_validate(
            {
                "redis_url": redis_url,
                "webhook_secret": SECRET,
                "webhook_allowed_networks": ["127.0.0.0/8"],
                "webhook_timeout_s": LONG_S,
                "webhook_max_attempts": 4,
                "public_url": "http://api.example",
            }
        )
        self.client: redis.Redis = connect_worker(self.config)
        self.queue = Queue(self.client, self.config)
        self.outbox = Outbox(self.client, self.config)

    def ended(self, url: str, **changes: Any) -> str:
        """Run a job to its end; gives its id."""
        return end(self.queue, f"hook{next(_number):06}", WebhookRequest(url=url), **changes)

    def row(self, job: str) -> dict[str, str]:
        """The job's event as kept; empty when delivered."""
        return fields_of(self.client, keys.OUTBOX_ROW(f"evt_{job}"))

    def failed(self, job: str, attempt: int) -> Callable[[], bool]:
        """Whether this attempt has failed (and ``make_all_due`` was not called since)."""

        def look() -> bool:
            row = self.row(job)
            return row["attempts"] == str(attempt) and "last_error" in row

        return look

    def dead(self, job: str) -> bool:
        """Whether the job's event was given up."""
        return self.client.zscore(keys.OUTBOX_DEAD(), f"evt_{job}") is not None

    def empty(self) -> bool:
        """Whether no event waits."""
        return not self.client.exists(keys.OUTBOX(), keys.OUTBOX_HEADS())

    def make_all_due(self) -> None:
        """End every lease and pause without waiting for it."""
        for row in self.client.scan_iter(keys.OUTBOX_ROW("*")):
            self.client.hdel(row, "last_error")
        # The heads come last: nothing is taken before they are due.
        for key in [keys.OUTBOX(), *self.client.scan_iter(keys.OUTBOX_LINE("*")), keys.OUTBOX_HEADS()]:
            for member in members_of(self.client, key):
                self.client.zadd(key, {member: 1}, xx=True)


@contextmanager
def hooks_on(redis_url: str) -> Iterator[Hooks]:
    """Hooks for one test."""
    hooks = Hooks(redis_url)
    with hooks.client:
        yield hooks


@contextmanager
def running(config: Settings, *, resolver: Resolver | None = None, most_in_flight: int = 8) -> Iterator[Notifier]:
    """A notifier with connections of its own; everything that it began must have ended at the end."""
    with connect_worker(config) as client:
        outbox = Outbox(client, config)
        deliverer = Deliverer(outbox, Queue(client, config), config, resolver=resolver)
        notifier = Notifier(outbox, deliverer, lease_ms_for(LONG_S), most_in_flight=most_in_flight)
        try:
            yield notifier
        finally:
            ended = notifier.close(LONG_S)
        assert ended
