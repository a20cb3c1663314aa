"""The lease: renewed while stages make progress, left to run out when they do not."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import redis

from shared import keys
from shared.job import Job
from shared.queue import Queue
from shared.server import connect_worker
from shared.settings import Settings
from tests.shared.jobs import spec
from tests.worker.processes import wait_for
from worker.lease import Interrupted, Lease, must_hand_back

LEASE_MS = 600


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with connect_worker(Settings(redis_url=redis_url)) as client:
        yield client


@pytest.fixture
def queue(client: redis.Redis, redis_url: str) -> Queue:
    return Queue(client, Settings(redis_url=redis_url, lease_ms=LEASE_MS))


@pytest.fixture
def job(queue: Queue) -> Job:
    queue.submit("job1", spec("ink"))
    claimed = queue.claim("tiny-flux", queue.get("job1").group, "w1")
    assert isinstance(claimed, Job)
    return claimed


def lease(queue: Queue, job: Job) -> Lease:
    return Lease(queue, job.id, job.attempt, LEASE_MS, lambda: 0.0)


def runs_out_ms(client: redis.Redis, job: Job) -> float:
    score = client.zscore(keys.LEASES(), job.id)
    assert score is not None
    return float(score)


def test_a_long_stage_is_renewed_within_its_budget(queue: Queue, job: Job, client: redis.Redis) -> None:
    first = runs_out_ms(client, job)
    with lease(queue, job) as held:
        held.stage(budget_s=60)
        wait_for("two renewals", lambda: runs_out_ms(client, job) > first + LEASE_MS / 2)


def test_a_stage_past_its_budget_loses_the_lease(queue: Queue, job: Job, client: redis.Redis) -> None:
    with lease(queue, job) as held:
        held.stage(budget_s=0)
        first = runs_out_ms(client, job)
        time.sleep(3 * LEASE_MS / 1000)
        assert runs_out_ms(client, job) == first
        queue.abandon("w1", keep=[], counted=True)
        with pytest.raises(Interrupted, match="lost"):
            held.step(1, 4, budget_s=60)


def test_renewal_learns_of_a_cancel_before_the_next_step(queue: Queue, job: Job) -> None:
    with lease(queue, job) as held:
        held.stage(budget_s=60)
        queue.cancel(job.id)
        with pytest.raises(Interrupted, match="cancelled"):
            held.step(1, 4, budget_s=60)


def test_work_goes_on_without_the_server(queue: Queue, job: Job, unused_port: int) -> None:
    away = Settings(redis_url=f"redis://127.0.0.1:{unused_port}/0")
    with connect_worker(away) as nobody, lease(Queue(nobody, away), job) as held:
        held.stage(budget_s=60)
        held.step(1, 4, budget_s=60)


@pytest.mark.parametrize(
    ("stop_at_s", "steps_left", "step_s", "expected"),
    [(0, 50, 1.0, False), (110, 5, 1.0, False), (110, 11, 1.0, True), (99, 1, 0.0, True), (99, 0, 1.0, True)],
)
def test_must_hand_back(stop_at_s: float, steps_left: int, step_s: float, expected: bool) -> None:
    assert must_hand_back(stop_at_s, 100.0, steps_left, step_s) is expected


def test_a_stopping_worker_leaves_between_steps(queue: Queue, job: Job) -> None:
    with Lease(queue, job.id, job.attempt, LEASE_MS, lambda: time.monotonic() + 0.5) as held:
        held.stage(budget_s=60)
        held.step(1, 100, budget_s=60)
        time.sleep(0.1)
        with pytest.raises(Interrupted, match="handed_back"):
            held.step(2, 100, budget_s=60)
