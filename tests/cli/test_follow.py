from __future__ import annotations

import pytest
from httpx2 import ServerSentEvent

from cli.client import Client
from cli.follow import follow
from shared.errors import JobNotFound, Unavailable
from shared.job import Status
from tests.cli.api_server import JOB_ID, ApiServer, Asked, Reply, job_reply, problem


def stream(*events: tuple[str, str, str], cut: bool = False) -> Reply:
    lines = "".join(f"id: {id}\nevent: {kind}\ndata: {data}\n\n" for id, kind, data in events)
    return Reply(f": hotslot\n\n{lines}".encode(), content_type="text/event-stream", cut=cut)


class Script:
    """Answers event requests with these streams in turn, and job requests with the job as it then is."""

    def __init__(self, api: ApiServer, *streams: Reply) -> None:
        self.api = api
        self.streams = list(streams)
        self.last_ids: list[str | None] = []
        api.answer = self

    def __call__(self, asked: Asked) -> Reply:
        if asked.path.endswith("/events"):
            self.last_ids.append(asked.headers.get("last-event-id"))
            return self.streams.pop(0)
        return job_reply(self.api.url, Status.RUNNING if self.streams else Status.SUCCEEDED)


def followed(api: ApiServer, patience_s: float = 30.0) -> tuple[Status, list[str]]:
    seen: list[ServerSentEvent] = []
    with Client(api.url) as client:
        job = follow(client, JOB_ID, seen.append, patience_s=patience_s, pause_s=0.01)
    return job.status, [f"{event.id} {event.event}" for event in seen]


def test_events_are_handed_on_until_the_job_has_ended(api: ApiServer) -> None:
    Script(api, stream(("1-0", "running", "{}"), ("2-0", "progress", "{}"), ("3-0", "succeeded", "{}")))
    assert followed(api) == (Status.SUCCEEDED, ["1-0 running", "2-0 progress", "3-0 succeeded"])


@pytest.mark.parametrize("cut", [False, True])
def test_a_dropped_stream_goes_on_after_the_last_event(api: ApiServer, cut: bool) -> None:
    script = Script(api, stream(("1-0", "running", "{}"), cut=cut), stream(("2-0", "succeeded", "{}")))
    assert followed(api) == (Status.SUCCEEDED, ["1-0 running", "2-0 succeeded"])
    assert script.last_ids == [None, "1-0"]


def test_an_api_that_is_away_for_a_while_is_waited_for(api: ApiServer) -> None:
    away = problem(503, "queue_unavailable", "Away.", retryable=True)
    Script(api, away, away, stream(("1-0", "failed", "{}")))
    assert followed(api)[1] == ["1-0 failed"]


def test_an_end_that_was_already_seen_has_no_stream(api: ApiServer) -> None:
    Script(api, Reply(status=204))
    assert followed(api) == (Status.SUCCEEDED, [])


def test_an_api_that_stays_away_ends_the_following(api: ApiServer) -> None:
    away = problem(503, "queue_unavailable", "Away.", retryable=True)
    Script(api, *[away] * 1000)
    with pytest.raises(Unavailable, match=r"Away\."):
        followed(api, patience_s=0.1)


def test_a_job_that_is_not_there_is_asked_for_once(api: ApiServer) -> None:
    api.answer = lambda asked: problem(404, "job_not_found", "No such job.")
    with pytest.raises(JobNotFound):
        followed(api)
    assert len(api.asked) == 1
