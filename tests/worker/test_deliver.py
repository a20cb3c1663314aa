"""One webhook event from a job's end to a real receiver: bytes, signature, redirects, refusals, attempts."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from shared import keys
from shared.errors import Misconfigured
from shared.payload import render
from shared.settings import Settings
from tests.receiver import Handler, Received, Receiver, status, until
from tests.worker.hooks import SECRET, Hooks, hooks_on, running
from worker.deliver import Deliverer


@pytest.fixture
def hooks(redis_url: str) -> Iterator[Hooks]:
    with hooks_on(redis_url) as hooks:
        yield hooks


def test_500_then_200_same_id_same_bytes(hooks: Hooks) -> None:
    with Receiver(status(500), status(200)) as receiver, running(hooks.config) as notifier:
        job = hooks.ended(receiver.url, prompt="ein 猫\n🐱 \u0000", metadata={"ключ": "значение"})
        notifier.wake()
        until(hooks.failed(job, 1))
        hooks.client.hset(keys.JOB(job), "warnings", '["written after the first attempt"]')
        hooks.make_all_due()
        notifier.wake()
        until(hooks.empty)
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


def test_the_receiver_reads_the_job_as_ended_within_the_call(hooks: Hooks) -> None:
    read: list[tuple[str, str]] = []

    def answer(received: Received, handler: Handler) -> None:
        event = json.loads(received.body)
        job = hooks.queue.get(event["data"]["id"])
        read.append((job.status.value, render(job, event["type"], hooks.config.public_url)))
        status(204)(received, handler)

    with Receiver(answer) as receiver, running(hooks.config) as notifier:
        hooks.ended(receiver.url)
        notifier.wake()
        (got,) = receiver.wait_for(1)
    assert read == [("succeeded", got.body.decode())]


def test_a_redirect_is_not_followed(hooks: Hooks) -> None:
    with (
        Receiver() as inside,
        Receiver(status(307, location=inside.url)) as receiver,
        running(hooks.config) as notifier,
    ):
        job = hooks.ended(receiver.url)
        notifier.wake()
        until(hooks.failed(job, 1))
        assert inside.received == []
    assert "redirects are not followed" in hooks.row(job)["last_error"]


def test_dead_after_the_last_attempt(hooks: Hooks) -> None:
    with Receiver(status(503)) as receiver, running(hooks.config) as notifier:
        job = hooks.ended(receiver.url)
        for attempt in range(1, 5):
            hooks.make_all_due()
            notifier.wake()
            until(hooks.failed(job, attempt))
        until(lambda: hooks.dead(job))
        notifier.wake()
    assert len(receiver.received) == 4
    assert len({got.body for got in receiver.received}) == 1
    assert hooks.empty()


def test_gone_is_dead_at_once(hooks: Hooks) -> None:
    with Receiver(status(410)) as receiver, running(hooks.config) as notifier:
        job = hooks.ended(receiver.url)
        notifier.wake()
        until(lambda: hooks.dead(job))
    assert len(receiver.received) == 1


def test_a_job_past_its_retention_is_dead(hooks: Hooks) -> None:
    with Receiver() as receiver, running(hooks.config) as notifier:
        job = hooks.ended(receiver.url)
        hooks.client.delete(keys.JOB(job))
        notifier.wake()
        until(lambda: hooks.dead(job))
    assert receiver.received == []


def test_a_record_that_cannot_be_read_counts_as_a_failed_attempt(hooks: Hooks) -> None:
    with Receiver() as receiver, running(hooks.config) as notifier:
        job = hooks.ended(receiver.url)
        hooks.client.hset(keys.JOB(job), "spec", "{}")
        notifier.wake()
        until(hooks.failed(job, 1))
    assert receiver.received == []
    assert "internal error" in hooks.row(job)["last_error"]


def test_inside_addresses_are_refused_again_at_delivery(hooks: Hooks) -> None:
    strict = hooks.config.model_copy(update={"webhook_allowed_networks": ()})
    with Receiver() as receiver, running(strict) as notifier:
        jobs = [
            hooks.ended(receiver.url),
            hooks.ended(f"http://localhost:{receiver.port}/"),
            hooks.ended(f"http://0x7f.1:{receiver.port}/"),
        ]
        notifier.wake()
        for job in jobs:
            until(hooks.failed(job, 1))
    assert receiver.received == []


def test_a_name_that_resolves_public_then_private(hooks: Hooks) -> None:
    """Allowed at first; when the name turns to a refused address before the retry, nothing is sent there."""
    answers = iter([["127.0.0.1"], ["169.254.169.254"], ["127.0.0.1", "10.0.0.1"]])
    asked: list[str] = []

    def resolver(host: str, port: int) -> list[str]:
        asked.append(host)
        return next(answers)

    with Receiver(status(500)) as receiver, running(hooks.config, resolver=resolver) as notifier:
        job = hooks.ended(f"http://rebind.example:{receiver.port}/")
        for attempt in (1, 2, 3):
            hooks.make_all_due()
            notifier.wake()
            until(hooks.failed(job, attempt))
    # One look-up per attempt, and only the first led to a request.
    assert asked == ["rebind.example"] * 3
    assert [got.headers["host"] for got in receiver.received] == [f"rebind.example:{receiver.port}"]
    assert "address_refused" in hooks.row(job)["last_error"]


def test_logs_hold_no_secret(hooks: Hooks, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="worker")
    with Receiver(status(500), status(204)) as receiver, running(hooks.config) as notifier:
        job = hooks.ended(receiver.url + "/path-token?key=query-token")
        notifier.wake()
        until(hooks.failed(job, 1))
        hooks.make_all_due()
        notifier.wake()
        until(hooks.empty)
    assert f"webhook evt_{job} delivered to 127.0.0.1" in caplog.text
    assert "HTTP 500; again in" in caplog.text
    for secret in (SECRET, SECRET[6:], "path-token", "query-token"):
        assert secret not in caplog.text


def test_no_secret_no_notifier(hooks: Hooks) -> None:
    for secret in (None, "whsec_short"):
        wrong = Settings.model_validate({"webhook_secret": secret})
        with pytest.raises(Misconfigured, match="HOTSLOT_WEBHOOK_SECRET"):
            Deliverer(hooks.outbox, hooks.queue, wrong)
