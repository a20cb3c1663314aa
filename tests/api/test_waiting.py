"""Long polls: they answer as soon as the job ends, hold no thread, are bounded, and end with their caller."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from api.main import THREADS
from api.waiting import LONGEST_WAIT_S, Waiters, first_of, preferred_wait_s
from shared.errors import TooManyWaiters
from tests.api.conftest import settings_for
from tests.api.live import Live, problem_of, serving, until

WAIT_S = 55
"""Long, so that an answer that came early came because the job ended."""
SOON_S = 30


def _meanwhile(act: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=act)
    thread.start()
    return thread


def _when_seated(live: Live, act: Callable[[], object], seats: int = 1) -> threading.Thread:
    def run() -> None:
        until(lambda: live.services.waiters.seated >= seats)
        # A moment later the waiter blocks in its read.
        time.sleep(0.1)
        act()

    return _meanwhile(run)


def test_an_answer_comes_when_the_job_ends(live: Live) -> None:
    job = live.submit()
    claimed = live.claim(job["id"])
    began_s = time.monotonic()
    ending = _when_seated(live, lambda: live.succeed(claimed))
    assert live.get(job["id"], wait=WAIT_S)["status"] == "succeeded"
    assert time.monotonic() - began_s < SOON_S
    ending.join()
    assert live.services.waiters.seated == 0


def test_progress_does_not_end_the_waiting(live: Live) -> None:
    job = live.submit()
    claimed = live.claim(job["id"])

    def work() -> None:
        for step in range(1, 9):
            live.queue.progress(job["id"], claimed.attempt, step, 8)
        live.queue.give_back(job["id"], claimed.attempt)
        live.succeed(live.claim(job["id"]))

    ending = _when_seated(live, work)
    assert live.get(job["id"], wait=WAIT_S)["status"] == "succeeded"
    ending.join()


@pytest.mark.parametrize("wait", [0, 0.2, 1])
def test_the_current_state_comes_at_the_end_of_the_wait(live: Live, wait: float) -> None:
    job = live.submit()
    began_s = time.monotonic()
    assert live.get(job["id"], wait=wait)["status"] == "queued"
    assert time.monotonic() - began_s >= wait


def test_a_job_that_has_ended_is_not_waited_for(live: Live) -> None:
    job = live.submit()
    live.http.post(f"/v1/jobs/{job['id']}/cancel")
    began_s = time.monotonic()
    assert live.get(job["id"], wait=WAIT_S)["status"] == "cancelled"
    assert time.monotonic() - began_s < SOON_S


def test_the_preference_is_applied_and_said(live: Live) -> None:
    job = live.submit()
    response = live.http.get(f"/v1/jobs/{job['id']}", headers={"Prefer": "respond-async, wait=1"})
    assert response.headers["preference-applied"] == "wait=1"
    assert "preference-applied" not in live.http.get(f"/v1/jobs/{job['id']}", headers={"Prefer": "wait=x"}).headers
    both = live.http.get(f"/v1/jobs/{job['id']}?wait=0", headers={"Prefer": "wait=50"})
    assert "preference-applied" not in both.headers


@pytest.mark.parametrize(
    ("prefer", "wait_s"),
    [
        ([], None),
        (["wait=5"], 5),
        (["Wait = 5"], 5),
        (['wait="5"'], 5),
        (["handling=lenient", "wait=5"], 5),
        (["respond-async; foo=bar, wait=5;x=y"], 5),
        (["wait=0"], 0),
        (["wait=100"], LONGEST_WAIT_S),
        (["wait=-5"], None),
        (["wait=5.5"], None),
        (["await=5"], None),
        (["wait"], None),
        (["wait=" + "9" * 5000], None),
    ],
)
def test_preferences(prefer: list[str], wait_s: int | None) -> None:
    assert preferred_wait_s(prefer) == wait_s


@pytest.mark.parametrize("wait", ["61", "-1", "nan", "inf", "soon"])
def test_waits_that_are_not_taken(live: Live, wait: str) -> None:
    job = live.submit()
    problem = problem_of(live.http.get(f"/v1/jobs/{job['id']}", params={"wait": wait}), 422, "invalid_request")
    assert problem["field"] == "wait"


def test_many_waiters_leave_the_threads_free(live: Live) -> None:
    jobs = [live.submit(seed=seed)["id"] for seed in range(3)]
    waiters = THREADS + 20
    with (
        httpx2.Client(base_url=live.url, timeout=60, limits=httpx2.Limits(max_connections=waiters)) as http,
        ThreadPoolExecutor(waiters) as pool,
    ):
        answers = [pool.submit(http.get, f"/v1/jobs/{jobs[n % 3]}", params={"wait": WAIT_S}) for n in range(waiters)]
        until(lambda: live.services.waiters.seated == waiters)
        assert live.get(jobs[0])["status"] == "queued"
        for job in jobs:
            assert live.http.post(f"/v1/jobs/{job}/cancel").status_code == 200
        assert {answer.result().json()["status"] for answer in answers} == {"cancelled"}
    assert live.services.waiters.seated == 0


def test_a_caller_that_leaves_ends_its_waiting(live: Live) -> None:
    job = live.submit()
    with httpx2.Client(base_url=live.url, timeout=0.5) as http, pytest.raises(httpx2.ReadTimeout):
        http.get(f"/v1/jobs/{job['id']}", params={"wait": WAIT_S})
    until(lambda: live.services.waiters.seated == 0, SOON_S)
    until(lambda: not _blocked(live), SOON_S)


def _blocked(live: Live) -> list[str]:
    """Clients that block in a read on the job server."""
    return [client["cmd"] for client in live.redis.client_list() if "b" in client["flags"]]


def test_beyond_the_seats_it_is_503(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    job = live.submit()
    monkeypatch.setattr(live.services.waiters, "_most", 0)
    response = live.http.get(f"/v1/jobs/{job['id']}", params={"wait": WAIT_S})
    assert problem_of(response, 503, "too_many_waiters")["retryable"] is True
    assert response.headers["retry-after"]
    problem_of(live.http.get(f"/v1/jobs/{job['id']}/events"), 503, "too_many_waiters")
    assert live.get(job["id"])["status"] == "queued"


def test_a_server_that_stops_ends_the_waiting(redis_url: str, tmp_path: Path) -> None:
    answers: list[int] = []
    with serving(settings_for(redis_url, tmp_path)) as live:
        job = live.submit()
        url = f"{live.url}/v1/jobs/{job['id']}"
        poll = _meanwhile(lambda: answers.append(httpx2.get(url, params={"wait": WAIT_S}, timeout=60).status_code))
        follow = _meanwhile(lambda: answers.append(httpx2.get(f"{url}/events", timeout=60).status_code))
        until(lambda: live.services.waiters.seated == 2)
        began_s = time.monotonic()
    assert time.monotonic() - began_s < SOON_S
    poll.join()
    follow.join()
    assert answers == [200, 200]


# --- the parts ------------------------------------------------------------------------------------


def test_a_seat_is_given_back_after_an_error() -> None:
    waiters = Waiters(most=1)
    with pytest.raises(ZeroDivisionError), waiters.seat():
        raise ZeroDivisionError
    with waiters.seat():
        assert waiters.seated == 1
        with pytest.raises(TooManyWaiters), waiters.seat():
            pytest.fail("there was but one seat")
    assert waiters.seated == 0


def test_the_first_result_counts_and_the_rest_is_cancelled() -> None:
    cancelled = []

    async def forever() -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return "late"

    async def at_once() -> str:
        return "first"

    async def fails() -> str:
        raise ZeroDivisionError

    assert asyncio.run(first_of(forever(), at_once())) == "first"
    with pytest.raises(ZeroDivisionError):
        asyncio.run(first_of(forever(), fails()))
    assert cancelled == [True, True]
