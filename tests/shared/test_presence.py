"""Which workers live, in whole and in brief."""

from __future__ import annotations

from shared import keys
from shared.presence import Presence
from shared.server import connect_worker
from shared.settings import Settings


def test_the_brief_answer_agrees_with_the_whole_one(redis_url: str) -> None:
    client = connect_worker(Settings(redis_url=redis_url))
    presence = Presence(client)
    assert presence.states() == []
    presence.report("w1", base_model="tiny-flux", state="idle", resident=("night",))
    presence.report("w2", base_model="other", state="stopping")
    presence.report("w3", base_model="other", state="starting")
    # Its fields have run out, its name has not yet.
    client.delete(keys.WORKER("w2"))
    assert sorted(presence.states()) == [("other", "starting"), ("tiny-flux", "idle")]
    assert [(worker.base_model, worker.state) for worker in presence.alive()] == [
        ("tiny-flux", "idle"),
        ("other", "starting"),
    ]
    presence.leave("w1")
    assert presence.states() == [("other", "starting")]
