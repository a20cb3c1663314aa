"""The mark on the next job: others prefer other jobs, and nobody ever waits for it."""

from __future__ import annotations

import time

import redis

from shared import keys
from shared.job import Job, Status
from shared.queue import Queue
from tests.shared.test_queue import BASE, client, config, put, queue, take

__all__ = ["client", "config", "queue"]


def marked(queue: Queue, worker: str) -> list[int]:
    return [group.marked for group in queue.look(BASE, worker=worker)]


def test_others_see_it_and_pass_over_it(queue: Queue) -> None:
    first, second = put(queue, "ink"), put(queue, "ink")
    group = queue.get(first).group
    reserved = queue.reserve(BASE, group, "w1")
    assert reserved is not None
    assert (reserved.id, reserved.status, reserved.attempt) == (first, Status.QUEUED, 0)
    assert (marked(queue, "w1"), marked(queue, "w2")) == ([0], [1])
    another = queue.reserve(BASE, group, "w2")
    assert another is not None
    assert another.id == second
    take(queue, second, "w2")
    take(queue, first, "w1")
    assert queue.stats(BASE)["overtaken_max"] == 1


def test_a_worker_takes_a_marked_job_rather_than_none(queue: Queue) -> None:
    job_id = put(queue, "ink")
    queue.reserve(BASE, queue.get(job_id).group, "w1")
    assert take(queue, job_id, "w2").attempt == 1
    assert queue.reserve(BASE, queue.get(job_id).group, "w1") is None


def test_the_bound_goes_before_a_mark(queue: Queue) -> None:
    oldest, *others = [put(queue, "ink") for _ in range(5)]
    queue.reserve(BASE, queue.get(oldest).group, "w1")
    for job_id in others[:3]:
        take(queue, job_id, "w2")
    take(queue, oldest, "w2")
    assert queue.stats(BASE)["overtaken_max"] == 3


def test_a_mark_ends_with_the_next_claim_with_the_next_mark_or_by_itself(queue: Queue, client: redis.Redis) -> None:
    ink, oil = put(queue, "ink"), put(queue, "oil")
    ink_group, oil_group = queue.get(ink).group, queue.get(oil).group
    queue.reserve(BASE, ink_group, "w1")
    queue.reserve(BASE, oil_group, "w1")
    assert marked(queue, "w2") == [0, 1]
    queue.unreserve(BASE, "w1")
    assert marked(queue, "w2") == [0, 0]
    queue.reserve(BASE, oil_group, "w1")
    take(queue, ink, "w1")
    assert marked(queue, "w2") == [0]
    queue.reserve(BASE, oil_group, "w1", mark_ms=30)
    assert client.pttl(keys.MARKS(BASE)) > 0
    time.sleep(0.05)
    assert marked(queue, "w2") == [0]
    assert not client.exists(keys.MARKS(BASE))


def test_a_marked_job_is_cancelled_at_once(queue: Queue) -> None:
    job_id, other = put(queue, "ink"), put(queue, "oil")
    queue.reserve(BASE, queue.get(job_id).group, "w1")
    assert queue.cancel(job_id) is Status.QUEUED
    assert queue.get(job_id).status is Status.CANCELLED
    assert queue.claim(BASE, queue.get(job_id).group, "w1") == "empty"
    assert isinstance(queue.claim(BASE, queue.get(other).group, "w1"), Job)
