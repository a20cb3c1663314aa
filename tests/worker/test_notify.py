"""Many webhook events side by side: leases, endpoints that hang, notifiers that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.settings import Settings
from tests.receiver import Handler, Received, Receiver, hang, status, until
from tests.worker.hooks import LONG_S, SECRET, Hooks, hooks_on, running
from worker.notify import PER_ENDPOINT


@pytest.fixture
def hooks(redis_url: str) -> Iterator[Hooks]:
    with hooks_on(redis_url) as hooks:
        yield hooks


def test_two_notifiers_at_once_deliver_each_event_once(hooks: Hooks) -> None:
    with Receiver() as receiver, running(hooks.config) as one, running(hooks.config) as other:
        jobs = [hooks.ended(receiver.url) for _ in range(40)]
        threads = [threading.Thread(target=notifier.wake) for notifier in (one, other) * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until(hooks.empty)
    assert sorted(got.id for got in receiver.received) == sorted(f"evt_{job}" for job in jobs)


def test_a_hanging_endpoint_keeps_nobody_waiting(hooks: Hooks) -> None:
    release = threading.Event()

    def wait(received: Received, handler: Handler) -> None:
        release.wait(LONG_S)
        status(204)(received, handler)

    with Receiver(wait) as slow, Receiver() as quick, running(hooks.config, most_in_flight=8) as notifier:
        stuck = [hooks.ended(slow.url) for _ in range(20)]
        notifier.wake()
        slow.wait_for(PER_ENDPOINT)
        job = hooks.ended(quick.url)
        notifier.wake()
        (got,) = quick.wait_for(1)
        assert got.id == f"evt_{job}"
        assert (len(slow.received), slow.answered) == (PER_ENDPOINT, 0)
        # Without another ticket, what was held back follows.
        release.set()
        until(hooks.empty)
    assert sorted(got.id for got in slow.received) == sorted(f"evt_{job}" for job in stuck)


def test_close_leaves_what_hangs_and_waits_for_the_rest(hooks: Hooks) -> None:
    with Receiver(hang) as receiver, running(hooks.config) as notifier:
        job = hooks.ended(receiver.url)
        notifier.wake()
        receiver.wait_for(1)
        assert not notifier.close(0.05)
        later = hooks.ended(receiver.url)
        notifier.wake()
        assert hooks.row(later)["attempts"] == "0"
        receiver.leave.set()
        until(hooks.failed(job, 1))


def test_an_event_outlives_the_notifier_that_died_with_it(hooks: Hooks) -> None:
    with Receiver(hang, status(204)) as receiver:
        job = hooks.ended(receiver.url)
        process = subprocess.Popen([sys.executable, "-c", _DYING], cwd=_ROOT, env=_environment(hooks.config))
        try:
            receiver.wait_for(1)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        until(lambda: hooks.outbox.due(hooks.queue.server_time_ms()))
        with running(hooks.config) as notifier:
            notifier.wake()
            first, second = receiver.wait_for(2)
            until(hooks.empty)
    assert first.id == second.id == f"evt_{job}"
    assert first.body == second.body


_ROOT = Path(__file__).parents[2]
_DYING = """
from shared.outbox import Outbox
from shared.queue import Queue
from shared.server import connect_worker
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
        "HOTSLOT_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8",
        "HOTSLOT_WEBHOOK_TIMEOUT_S": "60",
    }


def test_a_wake_without_a_server_is_quiet(hooks: Hooks, caplog: pytest.LogCaptureFixture) -> None:
    nowhere = Settings.model_validate({"redis_url": "redis://127.0.0.1:1/0", "webhook_secret": SECRET})
    with running(nowhere) as notifier:
        notifier.wake()
    assert "webhooks wait" in caplog.text
