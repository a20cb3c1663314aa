from __future__ import annotations

import hashlib
import json

import pytest

from cli.answers import Problem
from cli.client import Client, error_from
from cli.stack import free_port
from shared.errors import AdapterNotReady, HotslotError, InvalidRequest, JobFinished, StoreUnavailable, Unavailable
from shared.job import Status
from shared.view import ImageView
from tests.cli.api_server import JOB_ID, ApiServer, Reply, job_reply, problem


def image_at(url: str, data: bytes) -> ImageView:
    return ImageView(
        url=f"{url}/v1/jobs/{JOB_ID}/images/0",
        sha256=hashlib.sha256(data).hexdigest(),
        width=1,
        height=1,
        content_type="image/png",
        seed=1,
    )


def test_a_job_is_sent_with_its_key_and_read_back(api: ApiServer) -> None:
    api.answer = lambda asked: job_reply(api.url, Status.QUEUED)
    with Client(api.url + "/") as client:
        job = client.submit({"prompt": "猫"}, "key-1")
    assert (job.id, job.status) == (JOB_ID, Status.QUEUED)
    (asked,) = api.asked
    assert (asked.method, asked.path, asked.headers["idempotency-key"]) == ("POST", "/v1/jobs", "key-1")
    assert json.loads(asked.body) == {"prompt": "猫"}


def test_nobody_there_says_how_to_start_one() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with Client(url) as client, pytest.raises(Unavailable, match=f"No Hotslot at {url}; start one with: hotslot up"):
        client.queues()


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (problem(409, "job_finished", "It has ended."), JobFinished, "It has ended."),
        (problem(503, "adapter_not_ready", "Try later.", retryable=True), AdapterNotReady, "Try later."),
        (problem(503, "from_the_future", "Try later.", retryable=True), Unavailable, "Try later."),
        (problem(400, "from_the_future", "No."), HotslotError, "No."),
        (Reply(b"<html>", 404, "text/html"), HotslotError, "is it one"),
        (Reply(b"{}", 200), HotslotError, "is it one"),
    ],
)
def test_every_answer_that_is_none_is_an_error_of_the_tree(
    api: ApiServer, reply: Reply, kind: type[HotslotError], words: str
) -> None:
    api.answer = lambda asked: reply
    with Client(api.url) as client, pytest.raises(HotslotError, match=words) as caught:
        client.cancel(JOB_ID)
    assert type(caught.value) is kind


def leaves(kind: type[HotslotError]) -> list[type[HotslotError]]:
    children = [child for child in kind.__subclasses__() if child.__module__ == kind.__module__]
    return [leaf for child in children for leaf in leaves(child)] if children else [kind]


@pytest.mark.parametrize("kind", leaves(HotslotError))
def test_every_code_of_the_tree_comes_back_as_its_own_class(kind: type[HotslotError]) -> None:
    error = error_from(Problem(code=kind.code, detail="Do this.", field="steps"))
    assert (type(error), error.message, error.field) == (kind, "Do this.", "steps")


def test_a_connection_that_breaks_can_be_tried_again(api: ApiServer) -> None:
    api.answer = lambda asked: Reply(b"{", cut=True)
    with Client(api.url) as client, pytest.raises(Unavailable, match="did not answer"):
        client.job(JOB_ID)


@pytest.mark.parametrize("url", ["", "no address", "ftp://host", "http://", "http://host:port"])
def test_what_is_no_address_is_said_so(url: str) -> None:
    with pytest.raises(InvalidRequest, match="not an address"), Client(url) as client:
        client.queues()


@pytest.mark.parametrize("job_id", ["", "..", "a/b", "a?b", "é"])
def test_what_is_no_id_is_never_sent(api: ApiServer, job_id: str) -> None:
    with Client(api.url) as client, pytest.raises(InvalidRequest, match="not the id of a job"):
        client.job(job_id)
    assert api.asked == []


def test_an_image_is_followed_to_its_link_and_checked(api: ApiServer) -> None:
    data = b"an image"
    there = Reply(status=307, headers={"location": f"{api.url}/v1/files/x.png?signature=s"})
    api.answer = lambda asked: Reply(data, content_type="image/png") if "files" in asked.path else there
    with Client(api.url) as client:
        assert client.image(image_at(api.url, data)) == data
        with pytest.raises(StoreUnavailable, match="not the one that the job made"):
            client.image(image_at(api.url, b"another image"))


def test_a_proxy_is_not_asked_for_this_machine(api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{free_port()}")
    api.answer = lambda asked: Reply(b'{"workers": []}')
    with Client(api.url) as client:
        assert client.workers().workers == []
