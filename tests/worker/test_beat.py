"""The beat outlives an outage that is longer than the worker's entry."""

from __future__ import annotations

import pytest

from shared import keys
from shared.presence import Presence, WorkerInfo
from shared.server import connect_worker
from shared.settings import Settings
from tests.worker.processes import wait_for
from worker import beat as beat_module
from worker.beat import Beat

FIELDS = {"base_model": "tiny-flux", "state": "idle", "recipe": "eager", "resident": ("night", "mosaic")}


def test_everything_is_said_again(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beat_module, "BEAT_MS", 20)
    stopping = False
    with connect_worker(Settings(redis_url=redis_url)) as client:
        presence = Presence(client)
        beat = Beat(presence, "w1", lambda: stopping, dict(FIELDS))
        beat.start()

        def seen() -> WorkerInfo | None:
            return next(iter(presence.alive()), None)

        wait_for("the first beat", seen)
        beat.say(jobs=3)
        client.delete(keys.WORKER("w1"), keys.WORKERS())
        again = wait_for("the worker to reappear", seen)
        assert (again.state, again.recipe, again.resident, again.jobs) == ("idle", "eager", ("night", "mosaic"), 3)
        stopping = True
        wait_for("the stop to show", lambda: (one := seen()) and one.state == "stopping")
        beat.stop()
