"""A real Celery worker with the real model, on a real server: killed, stopped, cut off, and none the worse."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import redis

from shared import keys
from shared.catalogue import BUNDLED
from shared.embedded import EmbeddedServer
from shared.errors import SetupError
from shared.job import RECORD_VERSION, Job, JobSpec, Status
from shared.presence import Presence
from shared.queue import Queue
from shared.registry import Registry
from shared.request import WebhookRequest
from shared.server import connect_worker
from shared.settings import Settings
from shared.tickets import Tickets, base_queue
from tests.shared.jobs import spec
from tests.worker.processes import PATIENCE_S, WorkerProcess, Yard, wait_for, yard

BASE = "tiny-flux"
HOOK = WebhookRequest(url="http://example.org/hook")
LONG = 100
"""Steps of a job that is still running when a signal reaches its worker."""


class Stand:
    """A server, a yard of workers, and the queue seen from outside."""

    def __init__(self, made: Yard, client: redis.Redis, settings: Settings) -> None:
        self.yard = made
        self.client = client
        self.queue = Queue(client, settings)
        self.tickets = Tickets(settings)
        self.presence = Presence(client)
        self.registry = Registry(client)
        self._numbers = count(1)

    def worker(self) -> WorkerProcess:
        """A worker that is loaded."""
        worker = self.yard.start("--base-model", BASE)
        name = f"{BASE}-{worker.pid}@"

        def ready() -> bool:
            assert worker.process.poll() is None, worker.log()
            return any(one.name.startswith(name) and one.state == "idle" for one in self.presence.alive())

        wait_for("the worker to be ready", ready)
        return worker

    def submit(self, *adapters: str, **changes: object) -> str:
        job_id = self.store(*adapters, **changes)
        self.tickets.ring(BASE)
        return job_id

    def store(self, *adapters: str, **changes: object) -> str:
        """A job that nobody is woken for."""
        known = self.registry.all()
        named = [known[name].admitted() for name in adapters]
        job: JobSpec = spec(**({"adapters": named} | changes))
        return self.queue.submit(f"job{next(self._numbers):06}", job)

    def until(self, job_id: str, *statuses: Status) -> Job:
        def look() -> Job | None:
            job = self.queue.get(job_id)
            return job if job.status in statuses else None

        return wait_for(f"job {job_id} to be one of {statuses}", look)

    def until_step(self, job_id: str, step: int) -> Job:
        def look() -> Job | None:
            job = self.queue.get(job_id)
            return job if job.step >= step else None

        return wait_for(f"step {step} of job {job_id}", look)

    def events(self, job_id: str) -> list[str]:
        return [fields["type"] for _, fields in self.client.xrange(keys.EVENTS(job_id))]


@pytest.fixture
def stand(redis_url: str, tmp_path: Path) -> Iterator[Stand]:
    settings = Settings(redis_url=redis_url, lease_ms=3000)
    with (
        yard(tmp_path, redis_url, lease_ms="3000", stop_grace_s="20") as made,
        connect_worker(settings) as client,
    ):
        yield Stand(made, client, settings)


def ended_once(stand: Stand, job: Job) -> None:
    assert job.status is Status.SUCCEEDED
    assert stand.events(job.id).count("succeeded") == 1
    assert stand.client.zrange(keys.OUTBOX(), 0, -1) == [f"evt_{job.id}"]
    assert not stand.client.zcard(keys.LEASES())


def test_adapters_swaps_and_a_soft_stop(stand: Stand) -> None:
    worker = stand.worker()
    ids = [stand.submit(*[("night",), ("mosaic",), ()][number % 3]) for number in range(6)]
    jobs = [stand.until(job_id, Status.SUCCEEDED) for job_id in ids]
    shas = [job.result.images[0].sha256 for job in jobs if job.result]
    assert shas[:3] == shas[3:]
    assert len(set(shas)) == 3

    def counted() -> bool:
        (seen,) = stand.presence.alive()
        return (seen.jobs, seen.state) == (6, "idle")

    wait_for("the worker's own account", counted)
    (seen,) = stand.presence.alive()
    assert seen.record_version == RECORD_VERSION
    last = max(jobs, key=lambda job: job.claimed_ms or 0)
    assert seen.resident == tuple(adapter.source for adapter in last.spec.adapters)
    # The first may be claimed before the others are there.
    assert seen.swaps == stand.queue.stats(BASE)["swaps"] <= 4

    leaves_to_others_what_a_newer_version_stored(stand)
    leaves_tickets_to_others_while_drained(stand, seen.name)
    stand.queue.drain(seen.name)
    assert worker.term() == 0, worker.log()
    assert "Traceback" not in worker.log()
    assert stand.presence.alive() == []
    assert not stand.queue.is_drained(seen.name)


def leaves_to_others_what_a_newer_version_stored(stand: Stand) -> None:
    """It is neither drawn nor failed, and keeps nobody waiting."""
    newer = stand.store("night")
    stand.client.hset(keys.JOB(newer), "version", RECORD_VERSION + 1)
    stand.until(stand.submit("mosaic"), Status.SUCCEEDED)
    assert (stand.queue.get(newer).status, stand.queue.get(newer).attempt) == (Status.QUEUED, 0)
    stand.queue.cancel(newer)


def leaves_tickets_to_others_while_drained(stand: Stand, worker: str) -> None:
    """Once its parent has seen the drain."""
    stand.queue.drain(worker)
    time.sleep(1)
    job_id = stand.submit("night")
    time.sleep(1)
    assert stand.client.llen(base_queue(BASE)) >= 1
    assert stand.queue.get(job_id).attempt == 0
    stand.queue.undrain(worker)
    assert stand.until(job_id, Status.SUCCEEDED).attempt == 1


def test_the_child_is_killed(stand: Stand) -> None:
    worker = stand.worker()
    job_id = stand.submit("night", steps=LONG, webhook=HOOK)
    stand.until_step(job_id, 2)
    (child,) = worker.children()
    os.kill(child, signal.SIGKILL)
    job = stand.until(job_id, Status.SUCCEEDED)
    assert (job.attempt, job.losses) == (2, 1)
    ended_once(stand, job)


def test_the_worker_is_killed(stand: Stand) -> None:
    worker = stand.worker()
    job_id = stand.submit("night", steps=LONG, webhook=HOOK)
    stand.until_step(job_id, 2)
    worker.kill()
    other = stand.worker()
    wait_for("another attempt", lambda: stand.queue.get(job_id).attempt == 2, patience_s=15)
    job = stand.until(job_id, Status.SUCCEEDED)
    assert (job.attempt, job.losses) == (2, 1)
    assert job.worker is not None
    assert str(other.pid) in job.worker
    ended_once(stand, job)


def test_a_stop_lets_a_short_job_end_and_hands_a_long_one_back(stand: Stand) -> None:
    worker = stand.worker()
    short = stand.submit("night", steps=20)
    stand.until_step(short, 1)
    assert worker.term() == 0
    assert stand.queue.get(short).status is Status.SUCCEEDED

    stand.yard.environment["HOTSLOT_STOP_GRACE_S"] = "0.1"
    worker = stand.worker()
    long = stand.submit("night", steps=LONG)
    stand.until_step(long, 1)
    assert worker.term() == 0
    job = stand.queue.get(long)
    assert (job.status, job.losses) == (Status.QUEUED, 0)


def test_cancel_while_running(stand: Stand) -> None:
    stand.worker()
    job_id = stand.submit("night", steps=LONG)
    behind = stand.submit("mosaic")
    stand.until_step(job_id, 2)
    stand.queue.cancel(job_id)
    job = stand.until(job_id, Status.CANCELLED)
    assert job.result is None
    assert job.step < LONG
    stand.until(behind, Status.SUCCEEDED)


def test_a_model_that_cannot_be_loaded_ends_the_worker(stand: Stand, tmp_path: Path) -> None:
    catalogue = f'{BUNDLED.read_text()}\nsource = "{tmp_path / "no model here"}"\n'
    (tmp_path / "catalogue.toml").write_text(catalogue)
    stand.yard.environment["HOTSLOT_CATALOGUE"] = str(tmp_path / "catalogue.toml")
    worker = stand.yard.start("--base-model", BASE)
    assert worker.process.wait(PATIENCE_S) == SetupError.exit_status
    assert "no model here" in worker.log()
    assert "Traceback" not in worker.log()


def test_the_server_restarts_during_the_start_when_idle_and_in_the_middle_of_a_job(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    server = EmbeddedServer.start(folder)
    settings = Settings(redis_url=server.url, lease_ms=3000)

    def restart() -> None:
        nonlocal server
        server.stop()
        time.sleep(1)
        server = EmbeddedServer.start(folder, port=server.port)

    with (
        yard(tmp_path, server.url, lease_ms="3000") as made,
        connect_worker(settings) as client,
    ):
        stand = Stand(made, client, settings)
        worker = made.start("--base-model", BASE)
        wait_for("the model to be loading", lambda: "loading" in worker.log())
        restart()
        # Work done shows that it lives; the process being there does not.
        assert stand.until(stand.submit(), Status.SUCCEEDED).losses == 0
        restart()
        assert stand.until(stand.submit("night"), Status.SUCCEEDED).losses == 0
        job_id = stand.submit("night", steps=LONG)
        stand.until_step(job_id, 2)
        restart()
        job = stand.until(job_id, Status.SUCCEEDED)
        assert (job.attempt, job.losses) == (1, 0)
        assert worker.process.poll() is None
    server.stop()
