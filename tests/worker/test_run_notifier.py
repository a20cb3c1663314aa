"""``python -m worker --notify`` as a real process, rung by real tickets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from shared import keys
from shared.queue import Queue
from shared.request import WebhookRequest
from shared.server import connect_worker, members_of
from shared.settings import Settings
from shared.signature import new_secret
from shared.tickets import Tickets
from tests.receiver import Handler, Received, Receiver, status, until
from tests.shared.jobs import end
from tests.worker.processes import WorkerProcess, Yard, wait_for, yard

SECRET = new_secret()


@pytest.fixture
def config(redis_url: str) -> Settings:
    return Settings.model_validate({"redis_url": redis_url})


@pytest.fixture
def queue(config: Settings) -> Iterator[Queue]:
    with connect_worker(config) as client:
        yield Queue(client, config)


@pytest.fixture
def place(tmp_path: Path, redis_url: str) -> Iterator[Yard]:
    with yard(tmp_path, redis_url, webhook_secret=SECRET, webhook_allowed_networks="127.0.0.0/8") as place:
        yield place


def waiting(config: Settings) -> bool:
    with connect_worker(config) as client:
        return bool(client.exists(keys.OUTBOX()))


def ended_well(worker: WorkerProcess) -> bool:
    return worker.term() == 0 and "Traceback" not in worker.log()


def test_what_waits_is_delivered_and_retried_without_a_hand_on_it(place: Yard, config: Settings, queue: Queue) -> None:
    """The first ticket may be lost, and the retry of a failed attempt falls due with nobody ringing: reclaim rings."""
    with Receiver(status(500), status(204)) as receiver:
        job = end(queue, "hook-waits", WebhookRequest(url=receiver.url))
        notifier = place.start("--notify")
        first, second = receiver.wait_for(2)
        until(lambda: not waiting(config))
        assert ended_well(notifier)
    assert first.id == second.id == f"evt_{job}"
    assert first.body == second.body
    assert Webhook(SECRET).verify(second.body, second.headers)["data"]["status"] == "succeeded"


def test_sigterm_leaves_nothing_half_done(place: Yard, config: Settings, queue: Queue) -> None:
    release = threading.Event()

    def slow(received: Received, handler: Handler) -> None:
        release.wait(60)
        status(204)(received, handler)

    with Receiver(slow) as receiver:
        end(queue, "hook-under-way", WebhookRequest(url=receiver.url))
        notifier = place.start("--notify")
        receiver.wait_for(1)
        notifier.process.terminate()
        end(queue, "hook-late", WebhookRequest(url=receiver.url))
        Tickets(config).ring_notifier()
        release.set()
        assert notifier.process.wait(60) == 0
        delivered = {got.id for got in receiver.received}
    assert "evt_hook-under-way" in delivered
    with connect_worker(config) as client:
        left = set(members_of(client, keys.OUTBOX()))
        assert left.isdisjoint(delivered)
        assert {client.hget(keys.OUTBOX_ROW(event), "attempts") for event in left} <= {"0"}
    assert "Traceback" not in notifier.log()


def test_without_a_secret_it_says_what_to_set(tmp_path: Path, redis_url: str) -> None:
    with yard(tmp_path, redis_url) as place:
        notifier = place.start("--notify")
        assert notifier.process.wait(60) == 2
    assert "HOTSLOT_WEBHOOK_SECRET" in notifier.log()


def test_it_loads_no_model(place: Yard, queue: Queue) -> None:
    with Receiver() as receiver:
        notifier = place.start("--notify")
        end(queue, "hook-small", WebhookRequest(url=receiver.url))
        receiver.wait_for(1)
        mapped = Path(f"/proc/{notifier.pid}/maps")
        if not mapped.exists():
            pytest.skip("needs /proc")
        assert "libtorch" not in mapped.read_text()
        wait_for("a quiet end", lambda: ended_well(notifier))
