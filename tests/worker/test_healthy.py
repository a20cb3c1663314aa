"""Health as a container asks for it."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from shared import keys
from shared.errors import QueueUnavailable
from shared.presence import ALIVE_MS, Presence, State
from shared.server import connect_worker
from shared.settings import Settings
from tests.worker.processes import wait_for
from worker import pulse as pulse_module
from worker.healthy import can_work, check_health
from worker.pulse import Pulse

HOST = "here"


@pytest.fixture
def presence(redis_url: str) -> Iterator[Presence]:
    with connect_worker(Settings.model_validate({"redis_url": redis_url})) as client:
        yield Presence(client)


@pytest.mark.parametrize(
    ("state", "host", "healthy"),
    [
        ("idle", HOST, True),
        ("busy", HOST, True),
        ("starting", HOST, False),
        ("stopping", HOST, False),
        ("idle", "elsewhere", False),
    ],
)
def test_a_worker_is_healthy_while_it_takes_jobs(presence: Presence, state: State, host: str, healthy: bool) -> None:
    assert not can_work(presence, HOST)
    presence.report("w1", base_model="tiny-flux", state=state, host=host, name="w1")
    assert can_work(presence, HOST) is healthy


def test_a_notifier_is_healthy_while_it_looks(
    presence: Presence, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse_module, "BEAT_MS", 20)
    looks, reached = 0, False

    def look() -> None:
        nonlocal looks
        looks += 1
        if not reached:
            raise QueueUnavailable("not now")

    pulse = Pulse(look, presence, HOST)
    pulse.start()
    time.sleep(0.2)
    assert looks == 0, "nothing may be delivered before a signal to stop is heard"
    assert pulse.ready()
    wait_for("some looks in vain", lambda: looks > 2)
    assert not can_work(presence, HOST)
    reached = True
    wait_for("a look that works", lambda: can_work(presence, HOST))
    pulse.stop()
    with connect_worker(Settings.model_validate({"redis_url": redis_url})) as client:
        assert 0 < client.pttl(keys.NOTIFIER(HOST)) <= ALIVE_MS


def test_what_a_container_is_told(presence: Presence, redis_url: str, unused_port: int) -> None:
    config = Settings.model_validate({"redis_url": redis_url})
    assert check_health(config) == 1
    presence.report_notifier(socket.gethostname())
    assert check_health(config) == 0
    assert check_health(Settings.model_validate({"redis_url": f"redis://127.0.0.1:{unused_port}"})) == 1
