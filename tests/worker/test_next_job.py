"""The next job is marked and made ready while one is drawn."""

from __future__ import annotations

import pytest

from shared import keys
from shared.errors import GenerationFailed
from shared.job import Job, Status
from tests.worker import test_path
from tests.worker.processes import wait_for
from tests.worker.test_path import BASE, Bench
from worker.choose import Here, Limits, Pace
from worker.next_job import NextJob

bench, client = test_path.bench, test_path.client
HERE, PACE = Here("none", 1), Pace(100, 10, 1)
LIMITS = Limits(streak_max=16, overtake_max=64, payback=1e9, slack_jobs=2)


@pytest.fixture
def made_ready() -> list[str]:
    return []


@pytest.fixture
def ahead(bench: Bench, made_ready: list[str]) -> NextJob:
    def make_ready(job: Job) -> None:
        made_ready.append(job.id)

    bench.desk.next_job = NextJob(
        BASE, "w1", bench.queue, bench.desk.supply, LIMITS, bench.desk.busy, lambda: bench.stop_at_s, make_ready
    )
    return bench.desk.next_job


def marks_seen_by(bench: Bench, worker: str) -> int:
    return sum(group.marked for group in bench.queue.look(BASE, worker=worker))


def test_the_job_that_will_follow_is_marked_and_made_ready_once(
    bench: Bench, ahead: NextJob, made_ready: list[str]
) -> None:
    bench.submit("ink")
    plain = bench.submit()
    ahead.round()
    assert marks_seen_by(bench, "w2") == 0
    ahead.look_ahead(HERE, PACE)
    ahead.round()
    ahead.round()
    assert made_ready == [plain]
    assert marks_seen_by(bench, "w2") == 1
    bench.queue.cancel(plain)
    ahead.round()
    assert len(made_ready) == 2
    bench.stop_at_s = 1
    ahead.round()
    assert marks_seen_by(bench, "w2") == 0


def test_two_workers_make_two_jobs_ready(bench: Bench, ahead: NextJob, made_ready: list[str]) -> None:
    other = NextJob(
        BASE,
        "w2",
        bench.queue,
        bench.desk.supply,
        LIMITS,
        bench.desk.busy,
        lambda: 0,
        lambda j: made_ready.append(j.id),
    )
    jobs = [bench.submit("ink"), bench.submit("ink")]
    for one in (ahead, other):
        one.look_ahead(HERE, PACE)
        one.round()
    assert made_ready == jobs


def test_it_happens_while_a_job_is_drawn_and_ends_with_it(bench: Bench, ahead: NextJob, made_ready: list[str]) -> None:
    jobs = [bench.submit("ink"), bench.submit("ink")]
    bench.engine.on_draw_step = lambda done: bench.desk.next_job.round()
    bench.serve()
    assert made_ready == jobs[1:]
    ahead.round()
    bench.engine.on_draw_step = lambda done: None
    bench.serve()
    assert bench.ended(jobs[1]).status is Status.SUCCEEDED
    assert bench.queue._redis.hgetall(keys.MARKS(BASE)) == {}


def test_nothing_is_marked_by_a_worker_that_gets_no_more(bench: Bench, ahead: NextJob, made_ready: list[str]) -> None:
    bench.submit("ink")
    ahead.look_ahead(HERE, PACE)
    bench.queue.drain("w1")
    ahead.round()
    bench.queue.undrain("w1")
    bench.stop_at_s = 1
    ahead.round()
    assert made_ready == []
    assert marks_seen_by(bench, "w2") == 0


def test_what_cannot_be_made_ready_stops_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch, ahead: NextJob) -> None:
    tried: list[str] = []

    def fail(job: Job) -> None:
        tried.append(job.id)
        raise GenerationFailed("The prompt cannot be encoded.")

    monkeypatch.setattr(ahead, "_make_ready", fail)
    job_id = bench.submit("ink")
    ahead.start()
    ahead.look_ahead(HERE, PACE)
    wait_for("the job to be tried", lambda: tried == [job_id])
    ahead.stop()
    bench.serve()
    assert bench.ended(job_id).status is Status.SUCCEEDED
