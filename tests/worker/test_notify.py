"""Webhooks from a job's end to a real receiver, with a real server between."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import redis
from standardwebhooks import Webhook, WebhookVerificationError

from shared import keys
from shared.addresses import Resolver
from shared.errors import Misconfigured
from shared.outbox import Outbox
from shared.payload import render
from shared.queue import Queue
from shared.request import WebhookRequest
from shared.server import connect_worker, fields_of, members_of
from shared.settings import Settings
from shared.signature import new_secret
from tests.receiver import Handler, Received, Receiver, hang, status, until
from tests.shared.jobs import end
from worker.deliver import Deliverer
from worker.notify import PER_ENDPOINT, Notifier, lease_ms_for

SECRET = new_secret()
LONG_S = 60.0
_number = count(1)


@pytest.fixture
def config(redis_url: str) -> Settings:
    return Settings.model_validate(
        {
            "redis_url": redis_url,
            "webhook_secret": SECRET,
            "webhook_allowed_networks": ["127.0.0.0/8"],
            "webhook_timeout_s": LONG_S,
            "webhook_max_attempts": 4,
            "public_url": "http://api.example",
        }
    )


@pytest.fixture
def client(config: Settings) -> Iterator[redis.Redis]:
    with connect_worker(config) as client:
        yield client


@pytest.fixture
def queue(client: redis.Redis, config: Settings) -> Queue:
    return Queue(client, config)


@pytest.fixture
def outbox(client: redis.Redis, config: Settings) -> Outbox:
    return Outbox(client, config)


@pytest.fixture
def ended(queue: Queue) -> Callable[..., str]:
    """Runs a job to its end; gives its id."""

    def run(url: str, **changes: Any) -> str:
        return end(queue, f"hook{next(_number):06}", WebhookRequest(url=url), **changes)

    return run


@contextmanager
def running(config: Settings, **options: Any) -> Iterator[Notifier]:
    resolver: Resolver | None = options.pop("resolver", None)
    lease_ms = options.pop("lease_ms", lease_ms_for(LONG_S))
    with connect_worker(config) as client:
        outbox = Outbox(client, config)
        deliverer = Deliverer(outbox, Queue(client, config), config, resolver=resolver)
        notifier = Notifier(outbox, deliverer, lease_ms, **options)
        yield notifier
        assert notifier.close(LONG_S)


def make_all_due(client: redis.Redis) -> None:
    """End every lease and pause without waiting for it."""
    for row in client.scan_iter(keys.OUTBOX_ROW("*")):
        client.hdel(row, "last_error")
    # The heads come last: nothing is taken before they are due.
    for key in [keys.OUTBOX(), *client.scan_iter(keys.OUTBOX_LINE("*")), keys.OUTBOX_HEADS()]:
        for member in members_of(client, key):
            client.zadd(key, {member: 1}, xx=True)


def settled(client: redis.Redis, job: str, attempts: int) -> Callable[[], bool]:
    """Whether attempt number ``attempts`` has failed (and ``make_all_due`` was not called since)."""

    def look() -> bool:
        row = fields_of(client, keys.OUTBOX_ROW(f"evt_{job}"))
        return row["attempts"] == str(attempts) and "last_error" in row

    return look


def is_dead(client: redis.Redis, job: str) -> bool:
    return client.zscore(keys.OUTBOX_DEAD(), f"evt_{job}") is not None


def test_500_then_200_same_id_same_bytes(
    config: Settings, client: redis.Redis, queue: Queue, ended: Callable[..., str]
) -> None:
    with Receiver(status(500), status(200)) as receiver, running(config) as notifier:
        job = ended(receiver.url, prompt="ein 猫\n🐱 \u0000", metadata={"ключ": "значение"})
        notifier.wake()
        until(settled(client, job, 1))
        client.hset(keys.JOB(job), "warnings", '["written after the first attempt"]')
        make_all_due(client)
        notifier.wake()
        until(lambda: not client.exists(keys.OUTBOX()))
        first, second = receiver.received
    assert first.id == second.id == f"evt_{job}"
    assert first.body == second.body
    assert first.path == "/hook"
    assert first.headers["content-type"] == "application/json"
    assert first.headers["user-agent"].startswith("hotslot/")
    for got in (first, second):
        event = Webhook(SECRET).verify(got.body, got.headers)
        assert event["type"] == "job.succeeded"
        assert event["data"]["prompt"] == "ein 猫\n🐱 \u0000"
        assert event["data"]["metadata"] == {"ключ": "значение"}
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(first.body.replace(b"ein", b"kein"), first.headers)


def test_the_receiver_reads_the_job_as_ended_within_the_call(
    config: Settings, queue: Queue, ended: Callable[..., str]
) -> None:
    read: list[tuple[str, str]] = []

    def answer(received: Received, handler: Handler) -> None:
        event = json.loads(received.body)
        job = queue.get(event["data"]["id"])
        read.append((job.status.value, render(job, event["type"], config.public_url)))
        status(204)(received, handler)

    with Receiver(answer) as receiver, running(config) as notifier:
        ended(receiver.url)
        notifier.wake()
        (got,) = receiver.wait_for(1)
    assert read == [("succeeded", got.body.decode())]


def test_a_redirect_is_not_followed(config: Settings, client: redis.Redis, ended: Callable[..., str]) -> None:
    with Receiver() as inside, Receiver(status(307, location=inside.url)) as receiver, running(config) as notifier:
        job = ended(receiver.url)
        notifier.wake()
        until(settled(client, job, 1))
        assert inside.received == []
    assert "redirects are not followed" in str(client.hget(keys.OUTBOX_ROW(f"evt_{job}"), "last_error"))


def test_dead_after_the_last_attempt(config: Settings, client: redis.Redis, ended: Callable[..., str]) -> None:
    with Receiver(status(503)) as receiver, running(config) as notifier:
        job = ended(receiver.url)
        for attempt in range(1, 5):
            make_all_due(client)
            notifier.wake()
            until(settled(client, job, attempt))
        until(lambda: is_dead(client, job))
        notifier.wake()
    assert len(receiver.received) == 4
    assert len({got.body for got in receiver.received}) == 1
    assert not client.exists(keys.OUTBOX(), keys.OUTBOX_HEADS())


def test_gone_is_dead_at_once(config: Settings, client: redis.Redis, ended: Callable[..., str]) -> None:
    with Receiver(status(410)) as receiver, running(config) as notifier:
        job = ended(receiver.url)
        notifier.wake()
        until(lambda: is_dead(client, job))
    assert len(receiver.received) == 1


def test_a_job_past_its_retention_is_dead(config: Settings, client: redis.Redis, ended: Callable[..., str]) -> None:
    with Receiver() as receiver, running(config) as notifier:
        job = ended(receiver.url)
        client.delete(keys.JOB(job))
        notifier.wake()
        until(lambda: is_dead(client, job))
    assert receiver.received == []


def test_a_record_that_cannot_be_read_runs_out_of_attempts(
    config: Settings, client: redis.Redis, ended: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    with Receiver() as receiver, running(config) as notifier:
        job = ended(receiver.url)
        client.hset(keys.JOB(job), "spec", "{}")
        notifier.wake()
        until(settled(client, job, 1))
    assert receiver.received == []
    assert "internal error" in str(client.hget(keys.OUTBOX_ROW(f"evt_{job}"), "last_error"))


def test_inside_addresses_are_refused_again_at_delivery(
    config: Settings, client: redis.Redis, ended: Callable[..., str]
) -> None:
    strict = config.model_copy(update={"webhook_allowed_networks": ()})
    with Receiver() as receiver, running(strict) as notifier:
        jobs = [
            ended(receiver.url),
            ended(f"http://localhost:{receiver.port}/"),
            ended(f"http://0x7f.1:{receiver.port}/"),
        ]
        notifier.wake()
        for job in jobs:
            until(settled(client, job, 1))
    assert receiver.received == []


def test_a_name_that_resolves_public_then_private(
    config: Settings, client: redis.Redis, ended: Callable[..., str]
) -> None:
    """Allowed at first; when the name turns to a refused address before the retry, nothing is sent there."""
    answers = iter([["127.0.0.1"], ["169.254.169.254"], ["127.0.0.1", "10.0.0.1"]])
    asked: list[str] = []

    def resolver(host: str, port: int) -> list[str]:
        asked.append(host)
        return next(answers)

    with Receiver(status(500)) as receiver, running(config, resolver=resolver) as notifier:
        job = ended(f"http://rebind.example:{receiver.port}/")
        for attempt in (1, 2, 3):
            make_all_due(client)
            notifier.wake()
            until(settled(client, job, attempt))
    # One look-up per attempt, and only the first led to a request.
    assert asked == ["rebind.example"] * 3
    assert [got.headers["host"] for got in receiver.received] == [f"rebind.example:{receiver.port}"]
    assert "address_refused" in str(client.hget(keys.OUTBOX_ROW(f"evt_{job}"), "last_error"))


def test_two_notifiers_at_once_deliver_each_event_once(
    config: Settings, client: redis.Redis, ended: Callable[..., str]
) -> None:
    with Receiver() as receiver, running(config) as one, running(config) as other:
        jobs = [ended(receiver.url) for _ in range(40)]
        threads = [threading.Thread(target=notifier.wake) for notifier in (one, other) * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until(lambda: not client.exists(keys.OUTBOX()))
    assert sorted(got.id for got in receiver.received) == sorted(f"evt_{job}" for job in jobs)


def test_a_hanging_endpoint_keeps_nobody_waiting(
    config: Settings, client: redis.Redis, ended: Callable[..., str]
) -> None:
    release = threading.Event()

    def wait(received: Received, handler: Handler) -> None:
        release.wait(LONG_S)
        status(204)(received, handler)

    with Receiver(wait) as slow, Receiver() as quick, running(config, most_in_flight=8) as notifier:
        stuck = [ended(slow.url) for _ in range(20)]
        notifier.wake()
        slow.wait_for(PER_ENDPOINT)
        job = ended(quick.url)
        notifier.wake()
        (got,) = quick.wait_for(1)
        assert got.id == f"evt_{job}"
        assert (len(slow.received), slow.answered) == (PER_ENDPOINT, 0)
        # Without another ticket, what was held back follows.
        release.set()
        until(lambda: not client.exists(keys.OUTBOX()))
    assert sorted(got.id for got in slow.received) == sorted(f"evt_{job}" for job in stuck)


def test_close_leaves_what_hangs_and_waits_for_the_rest(
    config: Settings, client: redis.Redis, ended: Callable[..., str]
) -> None:
    with Receiver(hang) as receiver, running(config) as notifier:
        job = ended(receiver.url)
        notifier.wake()
        receiver.wait_for(1)
        assert not notifier.close(0.05)
        later = ended(receiver.url)
        notifier.wake()
        assert client.hget(keys.OUTBOX_ROW(f"evt_{later}"), "attempts") == "0"
        receiver.leave.set()
        until(settled(client, job, 1))


def test_an_event_outlives_the_notifier_that_died_with_it(
    config: Settings, client: redis.Redis, outbox: Outbox, queue: Queue, ended: Callable[..., str]
) -> None:
    with Receiver(hang, status(204)) as receiver:
        job = ended(receiver.url)
        process = subprocess.Popen([sys.executable, "-c", _DYING], cwd=_ROOT, env=_environment(config))
        try:
            receiver.wait_for(1)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        until(lambda: outbox.due(queue.server_time_ms()))
        with running(config) as notifier:
            notifier.wake()
            first, second = receiver.wait_for(2)
            until(lambda: not client.exists(keys.OUTBOX()))
    assert first.id == second.id == f"evt_{job}"
    assert first.body == second.body


_ROOT = Path(__file__).parents[2]
_DYING = """
from shared.outbox import Outbox
from shared.queue import Queue
from shared.server import connect_worker, fields_of, members_of
from shared.settings import settings
from worker.deliver import Deliverer
from worker.notify import Notifier

client = connect_worker(settings())
outbox = Outbox(client, settings())
notifier = Notifier(outbox, Deliverer(outbox, Queue(client, settings()), settings()), lease_ms=1000)
notifier.wake()
notifier.close(60)
"""


def _environment(config: Settings) -> dict[str, str]:
    return os.environ | {
        "HOTSLOT_REDIS_URL": config.redis_url.get_secret_value(),
        "HOTSLOT_WEBHOOK_SECRET": SECRET,
        "HOTSLOT_WEBHOOK_ALLOWED_NETWORKS": '["127.0.0.0/8"]',
        "HOTSLOT_WEBHOOK_TIMEOUT_S": "60",
    }


def test_logs_hold_no_secret(
    config: Settings, client: redis.Redis, ended: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="worker")
    with Receiver(status(500), status(204)) as receiver, running(config) as notifier:
        job = ended(receiver.url + "/path-token?key=query-token")
        notifier.wake()
        until(settled(client, job, 1))
        make_all_due(client)
        notifier.wake()
        until(lambda: not client.exists(keys.OUTBOX()))
    assert f"webhook evt_{job} delivered to 127.0.0.1" in caplog.text
    assert "HTTP 500; again in" in caplog.text
    for secret in (SECRET, SECRET[6:], "path-token", "query-token"):
        assert secret not in caplog.text


def test_no_secret_no_notifier(config: Settings, outbox: Outbox, queue: Queue) -> None:
    for secret in (None, "whsec_short"):
        wrong = Settings.model_validate({"webhook_secret": secret})
        with pytest.raises(Misconfigured, match="HOTSLOT_WEBHOOK_SECRET"):
            Deliverer(outbox, queue, wrong)


def test_a_wake_without_a_server_is_quiet(config: Settings, caplog: pytest.LogCaptureFixture) -> None:
    nowhere = Settings.model_validate({"redis_url": "redis://127.0.0.1:1/0", "webhook_secret": SECRET})
    with running(nowhere) as notifier:
        notifier.wake()
    assert "webhooks wait" in caplog.text
