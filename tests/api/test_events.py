"""Events as a stream."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import fastapi.routing
import httpx2
import pytest

from shared import keys
from shared.ids import new_job_id
from shared.job import Job
from tests.api.live import Live, problem_of, until


@contextmanager
def _stream(live: Live, job_id: str, last_id: str | None = None) -> Iterator[Iterator[httpx2.ServerSentEvent]]:
    headers = {"Last-Event-ID": last_id} if last_id else {}
    with live.http.sse(f"/v1/jobs/{job_id}/events", headers=headers) as source:
        assert source.response.status_code == 200
        assert source.response.headers["content-type"].startswith("text/event-stream")
        assert source.response.headers["cache-control"] == "no-cache"
        yield iter(source)


def _all(live: Live, job_id: str, last_id: str | None = None) -> list[httpx2.ServerSentEvent]:
    with _stream(live, job_id, last_id) as events:
        return list(events)


def _run(live: Live, steps: int = 3) -> Job:
    job = live.claim(live.submit()["id"])
    for step in range(1, steps + 1):
        live.queue.progress(job.id, job.attempt, step, steps)
    return job


def _ids(live: Live, job_id: str) -> list[str]:
    return [str(id) for id, _ in live.redis.xrange(keys.EVENTS(job_id)) or []]


def test_a_whole_life(live: Live) -> None:
    job = _run(live)
    live.succeed(job)
    events = _all(live, job.id)
    assert [event.event for event in events] == ["queued", "running", *["progress"] * 3, "succeeded"]
    assert [json.loads(event.data)["step"] for event in events if event.event == "progress"] == [1, 2, 3]
    ids = [event.id for event in events]
    assert ids == _ids(live, job.id)


def test_events_come_while_they_happen_and_end_with_the_job(live: Live) -> None:
    job_id = live.submit()["id"]
    with _stream(live, job_id) as events:
        assert next(events).event == "queued"
        job = live.claim(job_id)
        assert next(events).event == "running"
        live.queue.progress(job_id, job.attempt, 1, 8)
        assert json.loads(next(events).data) == {"step": 1, "steps": 8}
        live.http.post(f"/v1/jobs/{job_id}/cancel")
        assert next(events).event == "cancelling"
        live.queue.stop(job_id, job.attempt, "cancelled")
        assert next(events).event == "cancelled"
        assert list(events) == []
    until(lambda: live.services.waiters.seated == 0)


@pytest.mark.parametrize("ended", [False, True])
def test_a_stream_goes_on_after_any_event(live: Live, ended: bool) -> None:
    job = _run(live)
    if ended:
        live.succeed(job)
    seen = _ids(live, job.id)
    for place, last_id in enumerate(seen[:-1]):
        with _stream(live, job.id, last_id) as events:
            assert next(events).id == seen[place + 1]


def test_after_the_end_there_is_nothing(live: Live) -> None:
    job = _run(live)
    live.succeed(job)
    last_id = _ids(live, job.id)[-1]
    milliseconds = int(last_id.split("-")[0])
    for after in (last_id, f"{milliseconds + 1}-0", f"{milliseconds + 1}", f"{2**64 - 1}-{2**64 - 1}"):
        response = live.http.get(f"/v1/jobs/{job.id}/events", headers={"Last-Event-ID": after})
        assert (response.status_code, response.content) == (204, b"")


def test_an_ended_job_without_events_has_nothing_to_follow(live: Live) -> None:
    job = _run(live)
    live.succeed(job)
    live.redis.delete(keys.EVENTS(job.id))
    assert live.http.get(f"/v1/jobs/{job.id}/events").status_code == 204


@pytest.mark.parametrize("last_id", ["0", "0-0", "99", "99-5"])
def test_ids_are_compared_as_numbers(live: Live, last_id: str) -> None:
    job = _run(live)
    live.succeed(job)
    assert len(_all(live, job.id, last_id)) == 6


@pytest.mark.parametrize("last_id", ["x", "1-", "-1", "1-2-3", str(2**64), f"1-{2**64}", "9" * 5000, "$", "+"])
def test_ids_that_are_none_are_refused(live: Live, last_id: str) -> None:
    job = live.submit()
    response = live.http.get(f"/v1/jobs/{job['id']}/events", headers={"Last-Event-ID": last_id})
    assert problem_of(response, 422, "invalid_request")["field"] == "Last-Event-ID"


def test_a_job_never_seen_has_no_stream(live: Live) -> None:
    problem_of(live.http.get(f"/v1/jobs/{new_job_id()}/events"), 404, "job_not_found")


def test_comments_keep_an_idle_stream_alive(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastapi.routing, "_PING_INTERVAL", 0.05)
    job = live.submit()
    with live.http.stream("GET", f"/v1/jobs/{job['id']}/events") as response:
        for line in response.iter_lines():
            if line == ": ping":
                break


def test_a_caller_that_leaves_gives_its_seat_up(live: Live) -> None:
    job = live.submit()
    with httpx2.Client(base_url=live.url, timeout=30) as http:
        with http.stream("GET", f"/v1/jobs/{job['id']}/events") as response:
            # Held, because the connection closes with it.
            lines = response.iter_lines()
            assert next(lines) == "event: queued"
            assert live.services.waiters.seated == 1
        until(lambda: live.services.waiters.seated == 0)


def test_a_stream_ends_when_its_events_are_lost(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.routes_events.SLICE_MS", 100)
    job = live.submit()
    with _stream(live, job["id"]) as events:
        assert next(events).event == "queued"
        live.redis.flushall()
        began_s = time.monotonic()
        assert list(events) == []
        assert time.monotonic() - began_s < 30


def test_a_stream_after_an_id_that_is_to_come_ends_with_the_job(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.routes_events.SLICE_MS", 100)
    job = _run(live)
    with _stream(live, job.id, str(2**64 - 1)) as events:
        live.succeed(job)
        assert list(events) == []
