"""The receiver of a chaos run: which calls it takes, and what it remembers."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request

import pytest

from bench.chaos.receiver import Receiver, failures_of, running_receiver
from shared.signature import new_secret, sign

SECRET = new_secret()


def call(receiver: Receiver, event_id: str, secret: str = SECRET) -> bool:
    body = json.dumps({"type": "job.succeeded", "data": {"id": "one"}})
    headers = sign(secret, event_id, int(time.time()), body)
    request = urllib.request.Request(receiver.url, body.encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return bool(response.status == 204)
    except (urllib.error.HTTPError, urllib.error.URLError, ConnectionError):
        return False


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_an_event_is_taken_after_as_many_failures_as_its_id_says(failures: int) -> None:
    event_id = next(name for number in range(1000) if failures_of(name := f"evt_{number}") == failures)
    with running_receiver(SECRET) as receiver:
        answers = [call(receiver, event_id) for _ in range(failures + 1)]
        seen = receiver.calls
    assert answers == [False] * failures + [True]
    assert [one.taken for one in seen] == answers
    assert {(one.event_id, one.job_id, one.type) for one in seen} == {(event_id, "one", "job.succeeded")}


def test_a_wrong_signature_is_never_taken() -> None:
    with running_receiver(SECRET) as receiver:
        assert not call(receiver, "evt_1", new_secret())
        assert [one.job_id for one in receiver.calls] == [""]
