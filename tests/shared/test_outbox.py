"""Webhook events on a real server: made by the terminal write, leased, fenced, in one line per endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
import redis

from shared import keys
from shared.job import Job, JobError
from shared.outbox import Outbox, Row
from shared.queue import Queue
from shared.request import TERMINAL_EVENTS, TerminalEvent, WebhookRequest
from shared.server import connect_worker
from shared.settings import Settings
from tests.shared.jobs import end, result, spec

BASE = "tiny-flux"
LEASE_MS = 60_000
_number = count(1)


@pytest.fixture
def config(redis_url: str) -> Settings:
    return Settings.model_validate({"redis_url": redis_url, "retention_s": 60})


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


def ended(queue: Queue, url: str, events: tuple[TerminalEvent, ...] = TERMINAL_EVENTS) -> str:
    return end(queue, f"hook{next(_number):06}", WebhookRequest(url=url, events=list(events)))


def outbox_keys(client: redis.Redis) -> set[str]:
    return set(client.scan_iter("hotslot:outbox*"))


def make_due(client: redis.Redis, row: Row) -> None:
    """End a lease or a pause without waiting for it."""
    for key, member in (
        (keys.OUTBOX(), row.event),
        (keys.OUTBOX_LINE(row.endpoint), row.event),
        (keys.OUTBOX_HEADS(), row.endpoint),
    ):
        assert client.zadd(key, {member: 1}, xx=True, ch=True) == 1


def only(rows: list[Row]) -> Row:
    (row,) = rows
    return row


def test_every_end_makes_its_event(queue: Queue, outbox: Outbox, client: redis.Redis) -> None:
    hook = WebhookRequest(url="http://example.org/hook")
    succeeded = end(queue, "hook-succeeded", hook)
    queue.submit("hook-failed", spec(webhook=hook))
    claimed = queue.claim(BASE, "none", "w1")
    assert isinstance(claimed, Job)
    assert queue.fail("hook-failed", 1, JobError(code="x", message="y", retryable=False)) == "ok"
    queue.submit("hook-cancelled", spec(webhook=hook))
    queue.cancel("hook-cancelled")
    queue.submit("hook-expired", spec(webhook=hook, deadline_seconds=0.001))
    while not queue.reclaim():
        pass
    rows = outbox.take(10, LEASE_MS)
    assert {row.job: row.type for row in rows} == {
        succeeded: "job.succeeded",
        "hook-failed": "job.failed",
        "hook-cancelled": "job.cancelled",
        "hook-expired": "job.expired",
    }
    assert {row.event for row in rows} == {f"evt_{row.job}" for row in rows}
    assert client.zcard(keys.OUTBOX()) == 4


def test_only_the_ends_that_were_asked_for(queue: Queue, outbox: Outbox) -> None:
    ended(queue, "http://example.org", ("job.failed", "job.expired"))
    assert outbox.take(10, LEASE_MS) == []


def test_finishing_twice_makes_one_event(queue: Queue, outbox: Outbox, client: redis.Redis) -> None:
    job = ended(queue, "http://example.org")
    assert queue.succeed(job, 1, result(job, 1), []) == "ok"
    assert client.zcard(keys.OUTBOX()) == 1
    assert only(outbox.take(10, LEASE_MS)).attempts == 1


def test_a_leased_row_is_not_taken_again_before_its_lease_ends(
    queue: Queue, outbox: Outbox, client: redis.Redis
) -> None:
    ended(queue, "http://example.org")
    assert outbox.due(queue.server_time_ms()) == 1
    first = only(outbox.take(10, LEASE_MS))
    assert outbox.take(10, LEASE_MS) == []
    assert outbox.due(queue.server_time_ms()) == 0
    make_due(client, first)
    second = only(outbox.take(10, LEASE_MS))
    assert (second.event, second.attempts) == (first.event, 2)
    assert not outbox.settle(first, "delivered")
    assert outbox.settle(second, "delivered")


def test_the_first_rendering_wins(queue: Queue, outbox: Outbox, client: redis.Redis) -> None:
    ended(queue, "http://example.org")
    row = only(outbox.take(10, LEASE_MS))
    body = '{"prompt": "猫 \\ud83d\\udc31 \\u0000\\n"}'
    assert row.body == ""
    assert outbox.fix_body(row.event, body) == body
    assert outbox.fix_body(row.event, "another") == body
    make_due(client, row)
    assert only(outbox.take(10, LEASE_MS)).body == body
    assert outbox.fix_body("evt_unknown", "x") == ""
    assert client.exists(keys.OUTBOX_ROW("evt_unknown")) == 0


def test_a_delivered_event_leaves_no_key(queue: Queue, outbox: Outbox, client: redis.Redis) -> None:
    ended(queue, "http://example.org")
    ended(queue, "http://example.net")
    for row in outbox.take(10, LEASE_MS):
        assert outbox.settle(row, "delivered")
    assert outbox_keys(client) == set()


def test_a_retry_falls_due_later(queue: Queue, outbox: Outbox, client: redis.Redis) -> None:
    ended(queue, "http://example.org")
    row = only(outbox.take(10, LEASE_MS))
    before_ms = queue.server_time_ms()
    assert outbox.settle(row, "retry", delay_ms=5000, note="HTTP 500")
    assert outbox.take(10, LEASE_MS) == []
    due_ms = client.zscore(keys.OUTBOX(), row.event)
    assert due_ms is not None
    assert before_ms + 5000 <= due_ms <= queue.server_time_ms() + 5000
    assert client.hget(keys.OUTBOX_ROW(row.event), "last_error") == "HTTP 500"


def test_a_dead_event_is_kept_for_the_retention(queue: Queue, outbox: Outbox, client: redis.Redis) -> None:
    ended(queue, "http://example.org")
    row = only(outbox.take(10, LEASE_MS))
    assert outbox.settle(row, "dead", note="HTTP 410")
    assert not outbox.settle(row, "retry", delay_ms=1)
    assert outbox.take(10, LEASE_MS) == []
    assert client.zrange(keys.OUTBOX_DEAD(), 0, -1) == [row.event]
    assert outbox_keys(client) == {keys.OUTBOX_DEAD(), keys.OUTBOX_ROW(row.event)}
    assert all(0 < client.pttl(key) <= 60_000 for key in outbox_keys(client))


def test_dead_events_past_retention_are_forgotten(queue: Queue, outbox: Outbox, client: redis.Redis) -> None:
    client.zadd(keys.OUTBOX_DEAD(), {"evt_old": queue.server_time_ms() - 60_001})
    ended(queue, "http://example.org")
    row = only(outbox.take(10, LEASE_MS))
    assert outbox.settle(row, "dead")
    assert client.zrange(keys.OUTBOX_DEAD(), 0, -1) == [row.event]


def test_each_endpoint_has_its_own_line(queue: Queue, outbox: Outbox) -> None:
    for _ in range(5):
        ended(queue, "http://slow.example/a?key=1")
    ended(queue, "http://SLOW.example/b")
    quick = ended(queue, "https://slow.example/c")
    other = ended(queue, "http://slow.example:81")
    rows = outbox.take(10, LEASE_MS, per_endpoint=2)
    assert sorted(row.endpoint for row in rows) == [
        "http://slow.example",
        "http://slow.example",
        "http://slow.example:81",
        "https://slow.example",
    ]
    assert {quick, other} < {row.job for row in rows}
    assert outbox.take(10, LEASE_MS, per_endpoint=2, busy={"http://slow.example": 2}) == []
    assert len(outbox.take(10, LEASE_MS, per_endpoint=2, busy={"http://slow.example": 1})) == 1
    assert len(outbox.take(10, LEASE_MS)) == 3


def test_endpoints_that_are_busy_do_not_use_up_what_is_looked_at(queue: Queue, outbox: Outbox) -> None:
    for number in range(6):
        ended(queue, f"http://slow{number}.example")
    last = ended(queue, "http://quick.example")
    busy = {f"http://slow{number}.example": 1 for number in range(6)}
    assert only(outbox.take(1, LEASE_MS, per_endpoint=1, busy=busy)).job == last


def test_most_is_a_limit_over_all_endpoints(queue: Queue, outbox: Outbox) -> None:
    for number in range(6):
        ended(queue, f"http://host{number % 3}.example")
    assert len(outbox.take(4, LEASE_MS)) == 4
    assert len(outbox.take(4, LEASE_MS)) == 2
