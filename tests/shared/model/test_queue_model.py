"""The real scripts on a real server, and the model beside them: any calls in any order must have the same effect."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from bench.chaos.keyspace import leaked
from shared import keys
from shared.errors import KeyReused
from shared.job import Job, JobError, Status
from shared.outbox import Outbox
from shared.queue import Queue, group_of
from shared.rank import GUESSED_STEP_US, Shares
from shared.request import WebhookRequest
from shared.server import connect_worker
from shared.settings import Settings
from tests.shared.jobs import result, spec
from tests.shared.model.queue_model import ModelJob, QueueModel

BASE = "tiny-flux"
LEASE_MS = 600_000
"""Leases and deadlines never run out by themselves, but where a rule says so."""
LONG_AGO = 1
EXAMPLES = int(os.environ.get("EXAMPLES") or (500 if os.environ.get("CI") == "true" else 50))
"""Sets of calls that are tried; more of them at night: ``make test-nightly``."""

adapters = st.sampled_from(["", "ink", "oil", "wax"])
tenants = st.sampled_from(["t", "u"])
workers = st.sampled_from(["w1", "w2", "w3"])
picks = st.integers(0, 10_000)
ends = st.sampled_from([Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.EXPIRED])


class QueueMachine(RuleBasedStateMachine):
    """Rules pick jobs by number among those there are; ``stale`` picks the attempt before the last."""

    server: Settings
    client: redis.Redis

    def __init__(self) -> None:
        super().__init__()
        self.client.flushdb()
        self.queue = Queue(self.client, self.server)
        self.outbox = Outbox(self.client, self.server)
        self.model = QueueModel(self.server.overtake_max, self.server.max_lost_attempts)
        self.numbers = count(1)
        self.keyed: dict[tuple[str, str], tuple[str, str]] = {}
        self.shares = Shares()
        self.delivered: set[str] = set()
        self.queue.reclaim()

    # --- callers ------------------------------------------------------------------------------------

    @rule(
        adapter=adapters,
        tenant=tenants,
        priority=st.sampled_from(["normal", "normal", "low", "high"]),
        deadline=st.booleans(),
        hooked=st.booleans(),
        steps=st.integers(1, 400),
        weight=st.sampled_from([1.0, 2.0]),
        twice=st.booleans(),
        key=st.sampled_from(["", "", "", "k1", "k2"]),
        body=st.sampled_from(["b1", "b2"]),
    )
    def submit(
        self, adapter: str, tenant: str, priority: Any, deadline: bool, hooked: bool, steps: int, weight: float,
        twice: bool, key: str, body: str,
    ) -> None:  # fmt: skip
        name = f"job{next(self.numbers):06}"
        wanted = spec(
            *filter(None, [adapter]),
            priority=priority,
            steps=steps,
            deadline_seconds=3600 if deadline else None,
            webhook=WebhookRequest(url="http://example.org/hook") if hooked else None,
        )

        def send() -> str:
            return self.queue.submit(name, wanted, tenant=tenant, weight=weight, idempotency_key=key, body_sha256=body)

        known = self.keyed.get((tenant, key))
        if known and known[1] == body:
            assert send() == known[0]
        elif known:
            with pytest.raises(KeyReused):
                send()
        else:
            ahead = self.model.line[:1]
            step_us = self.queue.stats(BASE).get("step_us", GUESSED_STEP_US)
            before_ms = self.queue.server_time_ms()
            assert {send() for _ in range(1 + twice)} == {name}
            turn_ms = self._checked_turn(name, tenant, ahead, before_ms, steps * step_us / 1000 / weight)
            self.model.submit(ModelJob(name, group_of(wanted), tenant, turn_ms, priority, hooked, deadline))
            if key:
                self.keyed[tenant, key] = (name, body)

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        name = self._any(pick).name
        assert self.queue.cancel(name) is self.model.cancel(name)

    # --- workers ------------------------------------------------------------------------------------

    @rule(worker=workers, adapter=adapters, twice=st.booleans())
    def claim(self, worker: str, adapter: str, twice: bool) -> None:
        group = group_of(spec(*filter(None, [adapter])))
        expected = self.model.claim(group, worker)
        token = f"token{next(self.numbers)}"
        claimed = self.queue.claim(BASE, group, worker, token=token)
        if isinstance(expected, ModelJob):
            tries = [claimed]
            if twice:
                tries.append(self.queue.claim(BASE, group, worker, token=token))
            assert [(job.id, job.attempt) for job in tries if isinstance(job, Job)] == [
                (expected.name, expected.attempt)
            ] * len(tries)
        else:
            assert claimed == expected

    @rule(worker=workers, adapter=adapters)
    def reserve(self, worker: str, adapter: str) -> None:
        """A mark changes no job, as the invariants see."""
        group = group_of(spec(*filter(None, [adapter])))
        expected = self.model.reserve(group, worker)
        job = self.queue.reserve(BASE, group, worker, mark_ms=LEASE_MS)
        assert (job and job.id) == (expected and expected.name)

    @rule(worker=workers)
    def take_the_mark_back(self, worker: str) -> None:
        self.queue.unreserve(BASE, worker)
        self.model.marks.pop(worker, None)

    @precondition(lambda self: self.model.line)
    @rule(worker=workers)
    def claim_the_oldest(self, worker: str) -> None:
        """Whatever the bound says, the oldest can be had."""
        oldest = self.model.line[0]
        expected = self.model.claim(oldest.group, worker)
        claimed = self.queue.claim(BASE, oldest.group, worker)
        assert expected != "bound"
        assert (claimed.id if isinstance(claimed, Job) else claimed) == getattr(expected, "name", expected)

    @precondition(lambda self: len(self.model.heads()) > 1)
    @rule(worker=workers)
    def claim_the_youngest(self, worker: str) -> None:
        """The head that ranks last, as long as the bound allows it."""
        group = list(self.model.heads())[-1]
        expected = self.model.claim(group, worker)
        claimed = self.queue.claim(BASE, group, worker)
        assert (claimed.id if isinstance(claimed, Job) else claimed) == getattr(expected, "name", expected)

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks, stale=st.booleans(), step=st.booleans())
    def renew(self, pick: int, stale: bool, step: bool) -> None:
        name, attempt = self._attempt(pick, stale)
        answer = self.queue.progress(name, attempt, 1, 4) if step else self.queue.renew(name, attempt)
        assert answer == self.model.renew(name, attempt)

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks, stale=st.booleans(), end=ends)
    def finish(self, pick: int, stale: bool, end: Status) -> None:
        name, attempt = self._attempt(pick, stale)
        if end is Status.SUCCEEDED:
            answer = self.queue.succeed(name, attempt, result(name, attempt), [])
        elif end is Status.FAILED:
            answer = self.queue.fail(name, attempt, JobError(code="x", message="x", retryable=False))
        else:
            answer = self.queue.stop(name, attempt, end.value)
        assert answer == self.model.finish(name, attempt, end)

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks, stale=st.booleans())
    def give_back(self, pick: int, stale: bool) -> None:
        name, attempt = self._attempt(pick, stale)
        assert self.queue.give_back(name, attempt) == self.model.give_back(name, attempt)

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks, stale=st.booleans())
    def place(self, pick: int, stale: bool) -> None:
        name, attempt = self._attempt(pick, stale)
        job = self.model.jobs[name]
        is_done = job.status is Status.SUCCEEDED and job.attempt == attempt
        expected = "done" if is_done else self.model.held(name, attempt)
        assert self.queue.place(name, attempt, [f"jobs/{name}/{attempt}/0.png"]) == expected

    @rule(worker=workers, counted=st.booleans(), keep=picks)
    def abandon(self, worker: str, counted: bool, keep: int) -> None:
        kept = {self._any(keep).name} if self.model.jobs else set()
        taken = self.queue.abandon(worker, keep=kept, counted=counted)
        assert set(taken) == self.model.abandon(worker, kept, counted=counted)

    # --- time ---------------------------------------------------------------------------------------

    @precondition(lambda self: self.model.running)
    @rule(pick=picks)
    def a_lease_runs_out(self, pick: int) -> None:
        job = self.model.running[pick % len(self.model.running)]
        self.client.zadd(keys.LEASES(), {job.name: LONG_AGO})
        job.lease_ran_out = True

    @precondition(lambda self: any(job.has_deadline for job in self.model.jobs.values()))
    @rule(pick=picks)
    def a_deadline_passes(self, pick: int) -> None:
        waiting = [job for job in self.model.jobs.values() if job.has_deadline]
        job = waiting[pick % len(waiting)]
        self.client.zadd(keys.DEADLINES(), {job.name: LONG_AGO}, xx=True)
        job.is_late = True

    @precondition(lambda self: self.model.marks)
    @rule(pick=picks)
    def a_mark_runs_out(self, pick: int) -> None:
        worker, name = list(self.model.marks.items())[pick % len(self.model.marks)]
        self.client.hset(keys.MARKS(BASE), worker, f"{LONG_AGO}:{name}")
        del self.model.marks[worker]

    @rule(server_restarted=st.booleans(), twice=st.booleans())
    def reclaim(self, server_restarted: bool, twice: bool) -> None:
        if server_restarted:
            self.client.set(keys.SERVER_RUN(), "the run before")
        assert set(self.queue.reclaim()) == self.model.reclaim(server_restarted=server_restarted)
        if twice:
            assert self.queue.reclaim() == []

    @rule(worker=st.sampled_from(["", "w1"]), pauses=st.booleans())
    def pause_or_resume(self, worker: str, pauses: bool) -> None:
        """Pauses are ended more often than begun: otherwise most runs would stand still."""
        if worker in self.model.paused:
            self.queue.undrain(worker) if worker else self.queue.resume(BASE)
            self.model.paused.remove(worker)
        elif pauses:
            self.queue.drain(worker) if worker else self.queue.pause(BASE)
            self.model.paused.add(worker)

    @rule()
    def deliver(self) -> None:
        for row in self.outbox.take(1000, 60_000):
            assert self.model.events[row.job] == 1
            assert row.job not in self.delivered
            assert row.type == f"job.{self.model.jobs[row.job].status.value}"
            self.delivered.add(row.job)
            assert self.outbox.settle(row, "delivered")
            assert not self.outbox.settle(row, "delivered")

    # --- what must always hold ----------------------------------------------------------------------

    @invariant()
    def nobody_is_ahead_when_nothing_waits(self) -> None:
        assert self.queue.waited_for() == ([BASE] if self.model.line else [])
        if not self.model.line:
            self.shares.forget()
            assert not self.client.exists(keys.SHARES(BASE))

    @invariant()
    def every_job_is_as_the_model_says(self) -> None:
        names = list(self.model.jobs)
        with self.client.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hmget(keys.JOB(name), "status", "attempt", "losses", "stop", "holder")
            for status in Status:
                pipe.zrange(keys.INDEX(status), 0, -1)
            pipe.zrange(keys.WAITING(BASE), 0, -1)
            pipe.zrange(keys.LEASES(), 0, -1)
            pipe.zrange(keys.DEADLINES(), 0, -1)
            pipe.zrange(keys.CLAIMS(BASE), 0, -1, withscores=True)
            pipe.zrange(keys.OUTBOX(), 0, -1)
            *answers, waiting, leases, deadlines, claims, events = pipe.execute()
        model = self.model
        for name, (status, attempt, losses, stop, holder) in zip(names, answers, strict=False):
            job = model.jobs[name]
            assert (status, int(attempt or 0), int(losses or 0)) == (job.status, job.attempt, job.losses)
            if job.status is Status.RUNNING:
                assert (stop or "", holder) == (job.stop, job.holder)
        for status, members in zip(Status, answers[len(names) :], strict=True):
            assert set(members) == {job.name for job in model.jobs.values() if job.status is status}
        assert waiting == [job.name for job in model.line]
        assert set(leases) == {job.name for job in model.running}
        assert set(deadlines) == {job.name for job in model.jobs.values() if job.has_deadline}
        assert sorted(score for _, score in claims) == sorted(model.claims_ms)
        assert set(events) == {f"evt_{name}" for name, number in (+model.events).items() if number} - {
            f"evt_{name}" for name in self.delivered
        }
        assert max(model.events.values(), default=0) <= 1

    @invariant()
    def a_look_shows_the_heads(self) -> None:
        seen = [(one.key, one.head, one.head_rank_ms, one.overtaken, one.waiting) for one in self.queue.look(BASE)]
        sizes = {key: sum(job.group == key for job in self.model.line) for key in self.model.heads()}
        expected = [
            (key, head.name, head.rank_ms, self.model.overtaken(head.rank_ms), sizes[key])
            for key, head in self.model.heads().items()
        ]
        # Groups whose heads have the same rank stand in any order.
        assert sorted(seen, key=lambda row: (row[2], row[1])) == expected

    @invariant()
    def a_look_shows_what_others_marked(self) -> None:
        for worker in ("", "w1"):
            marked = [job.group for job in self.model.marked_by_others(worker)]
            seen = {one.key: one.marked for one in self.queue.look(BASE, worker=worker)}
            assert seen == {key: marked.count(key) for key in self.model.heads()}

    @invariant()
    def nobody_is_overtaken_beyond_the_bound(self) -> None:
        assert max(self.model.overtakers.values(), default=0) <= self.model.overtake_max
        stats = self.queue.stats(BASE)
        assert stats.get("overtaken_max", 0) == self.model.overtaken_max <= self.model.overtake_max
        assert stats.get("claims", 0) == self.model.claimed

    def teardown(self) -> None:
        """End all work: then every key is one that is kept, or will vanish by itself."""
        for job in list(self.model.jobs.values()):
            if not job.status.terminal:
                self.queue.cancel(job.name)
                self.queue.stop(job.name, job.attempt, "cancelled")
        assert not any(self.queue.get(name).status.terminal is False for name in self.model.jobs)
        for row in self.outbox.take(10_000, 60_000):
            self.outbox.settle(row, "dead")
        self.queue.orphans(0, forget=self.queue.orphans(0, most=10_000))
        names = list(self.client.scan_iter("*", count=1000))
        with self.client.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.pttl(name)
            left = list(zip(names, pipe.execute(), strict=True))
        assert leaked(left) == []

    def _checked_turn(self, name: str, tenant: str, ahead: list[ModelJob], before_ms: int, work_ms: float) -> int:
        """The turn that the server gave, which has to be the one of ``shared.rank``."""
        turn_ms = int(self.client.hget(keys.JOB(name), "turn_ms") or 0)
        # When nothing waits the server's clock counts, which can have been read at any moment since.
        now_ms = min(max(before_ms, turn_ms), self.queue.server_time_ms())
        oldest_ms = ahead[0].turn_ms if ahead else None
        assert turn_ms == self.shares.turn_ms(tenant, now_ms, oldest_ms, work_ms)
        return turn_ms

    def _any(self, pick: int) -> ModelJob:
        jobs = list(self.model.jobs.values())
        # Mostly one that has not ended.
        alive = [job for job in jobs if not job.status.terminal]
        return alive[pick % len(alive)] if alive and pick % 5 else jobs[pick % len(jobs)]

    def _attempt(self, pick: int, stale: bool) -> tuple[str, int]:
        job = self._any(pick)
        return job.name, max(1, job.attempt - stale)


@pytest.fixture
def server(redis_url: str) -> Settings:
    return Settings.model_validate({"redis_url": redis_url, "overtake_max": 2, "retention_s": 60, "lease_ms": LEASE_MS})


@pytest.fixture
def client(server: Settings) -> Iterator[redis.Redis]:
    with connect_worker(server) as client:
        yield client


def test_the_scripts_do_as_the_model_does(server: Settings, client: redis.Redis) -> None:
    class Machine(QueueMachine):
        pass

    Machine.server, Machine.client = server, client
    slow = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Machine,
        settings=settings(max_examples=EXAMPLES, stateful_step_count=30, deadline=None, suppress_health_check=slow),
    )
