"""The timers: what they return, ring and delete, and that one process at a time runs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from shared import keys
from shared.errors import ImageNotFound
from shared.job import Job, Status
from shared.outbox import Outbox
from shared.queue import Queue
from shared.reclaim import ORPHAN_AGE_MS, Reclaimer
from shared.server import connect_worker
from shared.settings import Settings
from shared.storage import Store, open_store
from shared.tickets import NOTIFY_QUEUE, Tickets, base_queue
from tests.shared.jobs import spec
from tests.shared.test_queue import HOOK
from tests.worker.processes import wait_for

BASE = "tiny-flux"


class Part:
    """A process's part in reclaiming."""

    def __init__(self, client: redis.Redis, settings: Settings) -> None:
        self.client = client
        self.queue = Queue(client, settings)
        self.store: Store = open_store(settings)
        outbox = Outbox(client, settings)
        self.reclaimer = Reclaimer(self.queue, outbox, Tickets(settings), self.store)


@pytest.fixture
def part(redis_url: str, tmp_path: Path) -> Iterator[Part]:
    settings = Settings(redis_url=redis_url, data_folder=tmp_path)
    with connect_worker(settings) as client:
        yield Part(client, settings)


def claimed(part: Part, job_id: str) -> Job:
    part.queue.submit(job_id, spec("ink", webhook=HOOK))
    job = part.queue.claim(BASE, part.queue.get(job_id).group, "w1")
    assert isinstance(job, Job)
    return job


def test_jobs_that_wait_are_rung_for_once(part: Part) -> None:
    part.queue.submit("job1", spec("ink"))
    for _ in range(3):
        part.reclaimer.reclaim()
    assert part.client.llen(base_queue(BASE)) == 1
    assert part.client.llen(NOTIFY_QUEUE) == 0


def test_jobs_are_rung_for_whatever_the_own_catalogue_serves(part: Part) -> None:
    part.queue.submit("job1", spec("ink", base_model="served by others only"))
    part.reclaimer.reclaim()
    assert part.client.llen(base_queue("served by others only")) == 1
    assert part.client.llen(base_queue(BASE)) == 0


def test_events_that_are_due_are_rung_for(part: Part) -> None:
    claimed(part, "job1")
    part.queue.stop("job1", 1, "cancelled")
    part.reclaimer.reclaim()
    assert part.client.llen(NOTIFY_QUEUE) == 1


def test_it_runs_by_itself_and_returns_what_a_dead_worker_held(part: Part) -> None:
    claimed(part, "job1")
    part.client.zadd(keys.LEASES(), {"job1": 1})
    part.reclaimer.start()
    # The first round sees a server that it does not know and gives every lease one more term.
    wait_for("the first round", lambda: part.client.exists(keys.SERVER_RUN()))
    part.client.zadd(keys.LEASES(), {"job1": 1}, xx=True)
    wait_for("the job to be returned", lambda: part.queue.get("job1").status is Status.QUEUED)
    part.reclaimer.stop()


def test_objects_of_a_lost_attempt_are_deleted_and_others_kept(part: Part) -> None:
    lost, kept = claimed(part, "job1"), claimed(part, "job2")
    for job in (lost, kept):
        key = f"jobs/{job.id}/1/0.png"
        part.queue.place(job.id, 1, [key])
        part.store.put(key, b"png", "image/png")
        part.client.zincrby(keys.OBJECTS(), -2 * ORPHAN_AGE_MS, key)
    part.queue.give_back(lost.id, 1)
    part.reclaimer.sweep()
    with pytest.raises(ImageNotFound):
        part.store.get("jobs/job1/1/0.png")
    assert part.store.get("jobs/job2/1/0.png") == b"png"
    assert part.client.zrange(keys.OBJECTS(), 0, -1) == ["jobs/job2/1/0.png"]


def test_one_process_at_a_time(part: Part) -> None:
    assert part.queue.try_timer("reclaim", 60_000)
    assert not part.queue.try_timer("reclaim", 60_000)
    assert part.queue.try_timer("sweep", 60_000)
