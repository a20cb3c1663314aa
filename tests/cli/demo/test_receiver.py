from __future__ import annotations

import json
import time
from collections.abc import Iterator

import httpx2
import pytest

from cli.client import Client
from cli.demo.receiver import Received, Receiver, running_receiver, webhook_fault
from shared.job import Status
from shared.signature import new_secret, sign
from tests.cli.api_server import JOB_ID, ApiServer, job_reply

SECRET = new_secret()
BODY = json.dumps({"type": "job.succeeded", "data": {"id": JOB_ID}})
GOOD = Received("evt_1", "job.succeeded", JOB_ID, "succeeded")


@pytest.fixture
def receiver(api: ApiServer) -> Iterator[Receiver]:
    api.answer = lambda asked: job_reply(api.url, Status.SUCCEEDED)
    with Client(api.url) as client, running_receiver(client, SECRET) as running:
        yield running


def post(receiver: Receiver, body: str, secret: str = SECRET) -> int:
    headers = sign(secret, "evt_1", int(time.time()), body)
    return httpx2.post(receiver.url, content=body, headers=headers, trust_env=False).status_code


def test_a_signed_call_is_taken_and_the_job_read_meanwhile(receiver: Receiver, api: ApiServer) -> None:
    assert post(receiver, BODY) == 204
    assert receiver.wait(1, 0) == [GOOD]
    assert [asked.path for asked in api.asked] == [f"/v1/jobs/{JOB_ID}"]


def test_it_is_called_by_the_name_that_its_callers_know(api: ApiServer) -> None:
    api.answer = lambda asked: job_reply(api.url, Status.SUCCEEDED)
    with Client(api.url) as client, running_receiver(client, SECRET, "localhost") as running:
        assert running.url == f"http://localhost:{running.server_port}/webhook"
        assert post(running, BODY) == 204


def test_another_secret_is_noticed(receiver: Receiver) -> None:
    assert post(receiver, BODY, new_secret()) == 400
    (call,) = receiver.wait(1, 0)
    assert "signature" in call.fault


@pytest.mark.parametrize("body", ["[]", "{}", "no json"])
def test_a_signed_body_of_another_kind_is_noticed(receiver: Receiver, body: str) -> None:
    assert post(receiver, body) == 400
    assert receiver.wait(1, 0)[0].fault


def test_a_job_that_cannot_be_read_is_noticed(receiver: Receiver, api: ApiServer) -> None:
    api.answer = lambda asked: job_reply("nowhere").__class__(b"", 500)
    assert post(receiver, BODY) == 400
    assert "could not be read" in receiver.wait(1, 0)[0].fault


@pytest.mark.parametrize(
    ("calls", "fault"),
    [
        ([GOOD], None),
        ([GOOD, GOOD], None),
        ([], "never came"),
        ([Received("evt_1", fault="bad")], "bad"),
        ([Received("evt_1", "job.succeeded", JOB_ID, "running")], "was running to its reader"),
        ([Received("evt_1", "job.failed", JOB_ID, "failed")], "job.failed"),
        ([Received("evt_1", "job.succeeded", "other", "succeeded")], "other"),
        ([GOOD, Received("evt_2", "job.succeeded", JOB_ID, "succeeded")], "several ids"),
    ],
)
def test_what_counts_as_a_verified_webhook(calls: list[Received], fault: str | None) -> None:
    found = webhook_fault(calls, JOB_ID, "job.succeeded")
    assert found is None if fault is None else found is not None and fault in found
