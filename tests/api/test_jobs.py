"""Reading, listing and cancelling jobs."""

from __future__ import annotations

import time
from typing import Any

import pytest
from ulid import ULID

from api.routes_jobs import make_cursor, read_cursor
from shared import keys
from shared.errors import InvalidRequest
from shared.ids import new_job_id
from shared.job import JobError
from tests.api.live import BASE, Live, problem_of


def _old_id(age_s: float) -> str:
    return str(ULID.from_timestamp(time.time() - age_s))


# --- read -----------------------------------------------------------------------------------------


def test_a_job_never_seen_is_404(live: Live) -> None:
    problem_of(live.http.get(f"/v1/jobs/{new_job_id()}"), 404, "job_not_found")


@pytest.mark.parametrize(
    "job_id", ["x", "1", "01KJ9QZ7W5V0T3N8M2C4X6B1A", "01KJ9QZ7W5V0T3N8M2C4X6B1ADX", "%00", "猫" * 26]
)
def test_what_is_no_id_is_404(live: Live, job_id: str) -> None:
    problem_of(live.http.get(f"/v1/jobs/{job_id}"), 404, "job_not_found")


def test_a_job_past_its_retention_is_410(live: Live) -> None:
    retention_s = live.settings.retention_s
    for way in ("", "/events", "/images/0"):
        problem_of(live.http.get(f"/v1/jobs/{_old_id(retention_s + 60)}{way}"), 410, "job_gone")
        problem_of(live.http.get(f"/v1/jobs/{_old_id(retention_s - 60)}{way}"), 404, "job_not_found")
    problem_of(live.http.post(f"/v1/jobs/{_old_id(retention_s + 60)}/cancel"), 410, "job_gone")


def test_a_job_shows_how_far_it_is(live: Live) -> None:
    job = live.submit(steps=4, num_images=2)
    claimed = live.claim(job["id"])
    live.queue.progress(job["id"], claimed.attempt, 3, 8)
    now = live.get(job["id"])
    assert (now["status"], now["progress"], now["worker"]) == ("running", {"step": 3, "steps": 8}, "w1")
    assert now["position"] is None
    assert now["started_at"] is not None


def test_a_failed_job_says_why(live: Live) -> None:
    job = live.submit()
    claimed = live.claim(job["id"])
    live.queue.fail(job["id"], claimed.attempt, JobError(code="worker_lost", message="Gone.", retryable=True))
    assert live.get(job["id"])["error"] == {"code": "worker_lost", "message": "Gone.", "retryable": True}


# --- list -----------------------------------------------------------------------------------------


def _list(live: Live, **params: Any) -> tuple[list[str], str | None]:
    response = live.http.get("/v1/jobs", params=params)
    assert response.status_code == 200, response.text
    page = response.json()
    return [job["id"] for job in page["jobs"]], page["next_cursor"]


def test_an_empty_list(live: Live) -> None:
    assert _list(live) == ([], None)


@pytest.mark.parametrize("limit", [1, 3, 7, 8])
def test_pages_give_every_job_once_newest_first(live: Live, limit: int) -> None:
    made = {live.submit()["id"]: None for _ in range(7)}
    # Jobs of one millisecond stand in the order of their ids.
    ordered = sorted(made, key=lambda job: (live.queue.get(job).created_ms, job), reverse=True)
    seen: list[str] = []
    cursor: str | None = None
    pages = 0
    while True:
        page, cursor = _list(live, limit=limit, **({"cursor": cursor} if cursor else {}))
        seen += page
        pages += 1
        if cursor is None:
            break
    assert seen == ordered
    assert pages == -(-7 // limit)


def test_a_page_is_not_moved_by_new_jobs(live: Live) -> None:
    first = [live.submit()["id"] for _ in range(3)]
    page, cursor = _list(live, limit=2)
    live.submit()
    assert cursor is not None
    rest, _ = _list(live, limit=2, cursor=cursor)
    assert sorted(page + rest) == sorted(first)


def test_only_some_states(live: Live) -> None:
    queued, running, cancelled = (live.submit(adapters=[])["id"] for _ in range(3))
    live.http.post(f"/v1/jobs/{cancelled}/cancel")
    # The oldest is claimed.
    live.claim(queued)
    assert _list(live, status="running")[0] == [queued]
    assert _list(live, status="queued")[0] == [running]
    assert set(_list(live, status=["running", "cancelled"])[0]) == {queued, cancelled}
    assert _list(live, status="failed")[0] == []
    assert len(_list(live)[0]) == 3


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 101}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"status": "done"}, "status[0]"),
        ({"cursor": "x"}, "cursor"),
        ({"cursor": "MTIz"}, "cursor"),
        ({"cursor": "猫"}, "cursor"),
    ],
)
def test_faulty_questions_are_refused(live: Live, params: dict[str, Any], field: str) -> None:
    problem = problem_of(live.http.get("/v1/jobs", params=params), 422, "invalid_request")
    assert problem["field"] == field


def test_a_cursor_reads_as_it_was_made(live: Live) -> None:
    row = (1_772_366_400_250, new_job_id())
    assert read_cursor(make_cursor(row)) == row
    with pytest.raises(InvalidRequest):
        read_cursor(make_cursor(row)[:-4])


def test_a_record_that_vanished_does_not_end_the_list(live: Live) -> None:
    made = [live.submit()["id"] for _ in range(3)]
    ordered = sorted(made, key=lambda job: (live.queue.get(job).created_ms, job), reverse=True)
    live.redis.delete(keys.JOB(ordered[1]))
    page, cursor = _list(live, limit=2)
    assert page == ordered[:1]
    assert _list(live, limit=2, cursor=cursor) == (ordered[2:], None)


def test_a_question_that_is_not_known_is_refused(live: Live) -> None:
    problem = problem_of(live.http.get("/v1/jobs", params={"state": "queued"}), 422, "invalid_request")
    assert problem["field"] == "state"
    assert problem["detail"] == '"state" is not known here; allowed are: status, limit, cursor.'
    problem = problem_of(live.http.get(f"/v1/jobs/{new_job_id()}", params={"waits": 1}), 422, "invalid_request")
    assert problem["detail"] == '"waits" is not known here; allowed are: wait.'


# --- cancel ---------------------------------------------------------------------------------------


def test_a_waiting_job_is_cancelled_at_once(live: Live) -> None:
    job = live.submit()
    response = live.http.post(f"/v1/jobs/{job['id']}/cancel")
    assert (response.status_code, response.json()["status"]) == (200, "cancelled")
    assert live.queue.depth(BASE) == 0
    again = live.http.post(f"/v1/jobs/{job['id']}/cancel")
    assert (again.status_code, again.json()["status"]) == (200, "cancelled")
    assert live.redis.llen("notify") == 0


def test_a_cancelled_job_with_a_webhook_wakes_a_notifier(live: Live) -> None:
    job = live.submit(webhook={"url": "https://example.com"})
    live.http.post(f"/v1/jobs/{job['id']}/cancel")
    assert live.redis.llen("notify") == 1
    assert live.redis.zcard(keys.OUTBOX()) == 1


def test_a_running_job_is_asked_to_stop(live: Live) -> None:
    job = live.submit()
    claimed = live.claim(job["id"])
    for _ in range(2):
        response = live.http.post(f"/v1/jobs/{job['id']}/cancel")
        assert (response.status_code, response.json()["status"]) == (202, "running")
    assert live.queue.progress(job["id"], claimed.attempt, 1, 8) == "cancelled"
    live.queue.stop(job["id"], claimed.attempt, "cancelled")
    assert live.http.post(f"/v1/jobs/{job['id']}/cancel").status_code == 200


def test_a_finished_job_cannot_be_cancelled(live: Live) -> None:
    job = live.submit()
    live.succeed(live.claim(job["id"]))
    problem = problem_of(live.http.post(f"/v1/jobs/{job['id']}/cancel"), 409, "job_finished")
    assert problem["detail"] == "The job has already succeeded."


def test_a_job_never_seen_cannot_be_cancelled(live: Live) -> None:
    problem_of(live.http.post(f"/v1/jobs/{new_job_id()}/cancel"), 404, "job_not_found")
