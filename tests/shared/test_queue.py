"""The Lua scripts on a real server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count

import pytest
import redis

from shared import keys
from shared.errors import JobNotFound, KeyReused
from shared.job import RECORD_VERSION, Job, JobError, Status
from shared.outbox import Outbox
from shared.presence import DRAINED_MS, Presence
from shared.queue import HEADS_CONSIDERED, Queue
from shared.request import WebhookRequest
from shared.server import connect_worker
from shared.settings import Settings
from tests.shared.jobs import result, spec

BASE = "tiny-flux"
HOOK = WebhookRequest(url="http://example.org/hook")
_number = count(1)


@pytest.fixture
def config(redis_url: str) -> Settings:
    return Settings(redis_url=redis_url, overtake_max=3, retention_s=60)


@pytest.fixture
def client(config: Settings) -> Iterator[redis.Redis]:
    with connect_worker(config) as client:
        yield client


@pytest.fixture
def queue(client: redis.Redis, config: Settings) -> Queue:
    return Queue(client, config)


def put(queue: Queue, *adapters: str, **changes: object) -> str:
    # The server's clock has milliseconds, and rank times must differ for the order to be told.
    time.sleep(0.002)
    return queue.submit(f"job{next(_number):06}", spec(*adapters, **changes))


def take(queue: Queue, job_id: str, worker: str = "w1") -> Job:
    claimed = queue.claim(BASE, queue.get(job_id).group, worker)
    assert isinstance(claimed, Job)
    assert claimed.id == job_id
    return claimed


def run_out(client: redis.Redis, job_id: str) -> None:
    """End a lease without waiting for it."""
    assert client.zadd(keys.LEASES(), {job_id: 1}, xx=True, ch=True)


def events(client: redis.Redis, job_id: str) -> list[str]:
    return [fields["type"] for _, fields in client.xrange(keys.EVENTS(job_id))]


def test_the_way_of_a_job(queue: Queue, client: redis.Redis) -> None:
    job_id = put(queue, "ink", webhook=HOOK)
    assert queue.get(job_id).status is Status.QUEUED
    assert queue.position(queue.get(job_id)) == 0
    job = take(queue, job_id)
    assert (job.status, job.attempt, job.worker) == (Status.RUNNING, 1, "w1")
    assert queue.progress(job_id, 1, 2, 4) == "ok"
    assert queue.get(job_id).step == 2
    assert queue.succeed(job_id, 1, result(job_id, 1), ["a warning"]) == "ok"
    done = queue.get(job_id)
    assert done.status is Status.SUCCEEDED
    assert done.result == result(job_id, 1)
    assert done.warnings == ["a warning"]
    assert events(client, job_id) == ["queued", "running", "progress", "succeeded"]


def test_a_finish_sent_twice_is_one_finish(queue: Queue, client: redis.Redis) -> None:
    job_id = put(queue, webhook=HOOK)
    take(queue, job_id)
    answers = [queue.succeed(job_id, 1, result(job_id, 1), []) for _ in range(2)]
    assert answers == ["ok", "ok"]
    assert events(client, job_id).count("succeeded") == 1
    assert client.zcard(keys.OUTBOX()) == 1


def test_a_worker_presumed_dead_can_change_nothing(queue: Queue) -> None:
    job_id = put(queue, "ink")
    take(queue, job_id)
    queue.abandon("w1", keep=[], counted=True)
    again = take(queue, job_id, "w2")
    assert (again.attempt, again.losses) == (2, 1)
    stale = 1
    assert queue.renew(job_id, stale) == "lost"
    assert queue.progress(job_id, stale, 1, 4) == "lost"
    assert queue.place(job_id, stale, ["jobs/x/1/0.png"]) == "lost"
    assert queue.succeed(job_id, stale, result(job_id, stale), []) == "lost"
    assert queue.fail(job_id, stale, JobError(code="x", message="x", retryable=False)) == "lost"
    assert queue.give_back(job_id, stale) == "lost"
    assert queue.get(job_id).worker == "w2"
    assert queue.succeed(job_id, 2, result(job_id, 2), []) == "ok"


def test_expired_lease_returns_to_the_front(queue: Queue, client: redis.Redis) -> None:
    first = put(queue, "ink")
    take(queue, first)
    second = put(queue, "ink")
    queue.reclaim()
    assert queue.get(first).status is Status.RUNNING
    run_out(client, first)
    assert queue.reclaim() == [first]
    assert queue.position(queue.get(first)) == 0
    assert queue.position(queue.get(second)) == 1
    assert queue.reclaim() == []


def test_the_lease_of_a_job_that_does_not_run_stops_nobody(queue: Queue, client: redis.Redis) -> None:
    queue.reclaim()
    ended, lost = put(queue, "ink"), put(queue, "ink")
    take(queue, ended)
    queue.fail(ended, 1, JobError(code="x", message="x", retryable=False))
    take(queue, lost)
    client.zadd(keys.LEASES(), {ended: 1, "forgotten": 1, lost: 1})
    assert queue.reclaim() == [lost]
    assert not client.exists(keys.LEASES(), keys.JOB("forgotten"))
    take(queue, lost)
    client.zadd(keys.LEASES(), {ended: 1})
    assert queue.abandon("w1", keep=[], counted=True) == [lost]
    assert (queue.get(ended).status, queue.get(ended).losses) == (Status.FAILED, 0)


def test_a_line_goes_on_behind_what_is_no_waiting_job(queue: Queue, client: redis.Redis) -> None:
    gone, job_id = put(queue, "ink"), put(queue, "ink")
    group = queue.get(job_id).group
    client.delete(keys.JOB(gone))
    claimed = queue.claim(BASE, group, "w1")
    assert isinstance(claimed, Job)
    assert claimed.id == job_id
    assert not client.exists(keys.JOB(gone), keys.WAITING(BASE), keys.HEADS(BASE), keys.GROUP(BASE, group))


def test_lost_as_often_as_allowed(queue: Queue, client: redis.Redis) -> None:
    job_id = put(queue, webhook=HOOK)
    for _ in range(3):
        take(queue, job_id)
        queue.abandon("w1", keep=[], counted=True)
    job = queue.get(job_id)
    assert job.status is Status.FAILED
    assert job.error is not None
    assert job.error.code == "worker_lost"
    assert client.zcard(keys.OUTBOX()) == 1


def test_handing_back_is_free(queue: Queue) -> None:
    job_id = put(queue, "ink")
    for attempt in range(1, 6):
        assert take(queue, job_id).attempt == attempt
        assert queue.give_back(job_id, attempt) == "ok"
    assert queue.get(job_id).losses == 0
    take(queue, job_id)
    queue.abandon("w1", keep=[], counted=False)
    assert queue.get(job_id).losses == 0


def test_abandon_keeps_what_is_spooled_and_others(queue: Queue) -> None:
    kept, lost, other = put(queue, "a"), put(queue, "b"), put(queue, "c")
    take(queue, kept)
    take(queue, lost)
    take(queue, other, "w2")
    assert queue.abandon("w1", keep=[kept], counted=True) == [lost]
    assert [queue.get(job).status.value for job in (kept, lost, other)] == ["running", "queued", "running"]


def test_a_restarted_server_gives_leases_one_more_term(queue: Queue, client: redis.Redis) -> None:
    job_id = put(queue)
    queue.reclaim()
    take(queue, job_id)
    run_out(client, job_id)
    client.set(keys.SERVER_RUN(), "the run before")
    assert queue.reclaim() == []
    assert queue.get(job_id).status is Status.RUNNING
    run_out(client, job_id)
    assert queue.reclaim() == [job_id]


def test_cancel_a_queued_job(queue: Queue, client: redis.Redis) -> None:
    job_id = put(queue, "ink", webhook=HOOK)
    assert queue.cancel(job_id) is Status.QUEUED
    assert queue.get(job_id).status is Status.CANCELLED
    assert queue.look(BASE) == []
    assert client.zcard(keys.OUTBOX()) == 1
    assert queue.cancel(job_id) is Status.CANCELLED


def test_cancel_a_running_job(queue: Queue) -> None:
    job_id = put(queue)
    take(queue, job_id)
    assert queue.cancel(job_id) is Status.RUNNING
    assert queue.progress(job_id, 1, 1, 4) == "cancelled"
    assert queue.succeed(job_id, 1, result(job_id, 1), []) == "cancelled"
    assert queue.get(job_id).result is None
    assert queue.stop(job_id, 1, "cancelled") == "ok"
    assert queue.get(job_id).status is Status.CANCELLED


def test_cancelled_job_of_a_dead_worker_is_not_run_again(queue: Queue) -> None:
    job_id = put(queue)
    take(queue, job_id)
    queue.cancel(job_id)
    queue.abandon("w1", keep=[], counted=True)
    assert queue.get(job_id).status is Status.CANCELLED


def test_deadlines(queue: Queue, client: redis.Redis) -> None:
    waiting, running = put(queue, "a", deadline_seconds=3600), put(queue, "b", deadline_seconds=3600)
    take(queue, running)
    client.zadd(keys.DEADLINES(), {waiting: 1, running: 1})
    assert queue.claim(BASE, queue.get(waiting).group, "w1") == "empty"
    assert queue.get(waiting).status is Status.EXPIRED
    queue.reclaim()
    assert queue.progress(running, 1, 1, 4) == "expired"
    assert queue.stop(running, 1, "expired") == "ok"
    assert queue.get(running).status is Status.EXPIRED


def test_snapshot_and_the_bound(queue: Queue) -> None:
    slow = put(queue, "slow")
    fast = [put(queue, "fast") for _ in range(5)]
    groups = queue.look(BASE)
    assert [(group.waiting, group.overtaken) for group in groups] == [(1, 0), (5, 0)]
    for job_id in fast[:3]:
        take(queue, job_id)
    assert [group.overtaken for group in queue.look(BASE)] == [3, 0]
    assert queue.claim(BASE, queue.get(fast[3]).group, "w1") == "bound"
    take(queue, slow)
    take(queue, fast[3])
    assert queue.stats(BASE)["overtaken_max"] == 3


def test_the_bound_holds_behind_a_job_that_has_just_expired(queue: Queue, client: redis.Redis) -> None:
    slow = put(queue, "slow")
    fast = [put(queue, "fast") for _ in range(5)]
    for job_id in fast[:2]:
        take(queue, job_id)
    late = put(queue, "late", deadline_seconds=3600)
    behind = put(queue, "late")
    client.zadd(keys.DEADLINES(), {late: 1})
    take(queue, fast[2])
    client.zadd(keys.DEADLINES(), {late: 1})
    assert queue.claim(BASE, queue.get(behind).group, "w1") == "bound"
    take(queue, slow)
    take(queue, behind)
    assert queue.get(late).status is Status.EXPIRED


def test_two_oldest_jobs_of_one_rank_do_not_stop_each_other(queue: Queue, client: redis.Redis) -> None:
    # Workers break the tie by job, the index of heads by group: whoever comes must be served.
    old = [put(queue, "slow"), put(queue, "other")]
    rank_ms = client.zscore(keys.WAITING(BASE), old[0])
    for job_id in old:
        group = queue.get(job_id).group
        for line, name in ((keys.WAITING(BASE), job_id), (keys.GROUP(BASE, group), job_id), (keys.HEADS(BASE), group)):
            client.zadd(line, {name: rank_ms})
    for _ in range(3):
        take(queue, put(queue, "fast"))
    late = put(queue, "fast")
    assert queue.claim(BASE, queue.get(late).group, "w1") == "bound"
    for job_id in reversed(old):
        take(queue, job_id)
    take(queue, late)


def test_a_look_tells_what_the_choice_needs(queue: Queue, client: redis.Redis) -> None:
    presence = Presence(client)
    for worker in ("w1", "w2", "w3"):
        presence.report(worker, base_model=BASE, state="idle")
    for worker in ("w1", "w2", "w3", "dead"):
        take(queue, put(queue, "ink"), worker)
    take(queue, put(queue, "oil"), "w3")
    first = put(queue, "ink", deadline_seconds=60)
    queue.submit("theirs", spec("oil"), tenant="others")
    ink, oil = queue.look(BASE, "none", "w1")
    assert (ink.head, ink.tenant, ink.elsewhere, ink.left_ms is not None) == (first, "default", 1, True)
    assert 55_000 < (ink.left_ms or 0) <= 60_000
    assert (oil.head, oil.tenant, oil.elsewhere, oil.left_ms) == ("theirs", "others", 1, None)
    assert [group.elsewhere for group in queue.look(BASE)] == [2, 1]
    assert set(client.hgetall(keys.RESIDENTS(BASE))) == {"w1", "w2", "w3"}


def test_the_resident_group_is_seen_behind_any_number_of_others(queue: Queue) -> None:
    for number in range(HEADS_CONSIDERED + 5):
        queue.submit(f"job{number:06}", spec(f"a{number}"))
    keys_seen = [group.key for group in queue.look(BASE)]
    assert len(keys_seen) == HEADS_CONSIDERED
    last = queue.get(f"job{HEADS_CONSIDERED + 4:06}").group
    assert [group.key for group in queue.look(BASE, last)] == [*keys_seen, last]


def test_a_claim_sent_twice_is_one_claim(queue: Queue) -> None:
    first, second = put(queue, "ink"), put(queue, "ink")
    group = queue.get(first).group
    claims = [queue.claim(BASE, group, "w1", token="t") for _ in range(3)]
    assert [(job.id, job.attempt) for job in claims if isinstance(job, Job)] == [(first, 1)] * 3
    assert queue.get(second).status is Status.QUEUED
    queue.give_back(first, 1)
    again = queue.claim(BASE, group, "w1", token="t")
    assert isinstance(again, Job)
    assert (again.id, again.attempt) == (first, 2)


def test_a_dead_child_is_told_from_its_successor(queue: Queue) -> None:
    old, new = put(queue, "ink"), put(queue, "ink")
    group = queue.get(old).group
    for holder in ("w1#1", "w1#2"):
        queue.claim(BASE, group, "w1", holder=holder)
    assert queue.abandon("w1#1", keep=[], counted=True) == [old]
    assert queue.get(new).status is Status.RUNNING


def test_a_record_that_cannot_be_read_ends_its_job_only(queue: Queue, client: redis.Redis) -> None:
    broken, good = put(queue, "ink"), put(queue, "ink")
    client.hset(keys.JOB(broken), "spec", "{}")
    group = queue.get(good).group
    assert queue.claim(BASE, group, "w1") == "empty"
    assert client.hget(keys.JOB(broken), "status") == "failed"
    take(queue, good)


def test_what_a_newer_version_stored_is_left_to_it(queue: Queue, client: redis.Redis) -> None:
    new, old = put(queue, "ink"), put(queue, "oil")
    client.hset(keys.JOB(new), mapping={"version": RECORD_VERSION + 1, "spec": '{"prompt in words of tomorrow": 1}'})
    group = client.hget(keys.JOB(new), "group") or ""
    assert queue.oldest_version(BASE) == RECORD_VERSION + 1
    assert [seen.head for seen in queue.look(BASE, group)] == [old]
    assert queue.claim(BASE, group, "w1") == "empty"
    take(queue, old)
    fields = client.hmget(keys.JOB(new), "status", "attempt")
    assert fields == ["queued", None]


def test_priority_is_a_head_start(queue: Queue) -> None:
    low, normal, high = (put(queue, "ink", priority=priority) for priority in ("low", "normal", "high"))
    group = queue.get(low).group
    order = [queue.claim(BASE, group, "w1") for _ in range(3)]
    assert [job.id for job in order if isinstance(job, Job)] == [high, normal, low]


def test_a_tenants_backlog_gives_way_to_another_tenant(queue: Queue) -> None:
    many = [queue.submit(f"many{number:03}", spec("ink"), tenant="many") for number in range(30)]
    for job_id in many[:5]:
        take(queue, job_id)
    first, second = (queue.submit(f"one{number}", spec("oil"), tenant="one") for number in range(2))
    positions = [queue.position(queue.get(job_id)) for job_id in (first, second, many[6])]
    # Right behind the oldest; the second one behind what that is due in the meantime.
    assert positions == [1, 3, 2]


def test_weights_divide_the_work(queue: Queue) -> None:
    queue.submit("oldest", spec("ink"), tenant="other")
    for number in range(4):
        queue.submit(f"heavy{number}", spec("ink"), tenant="heavy", weight=2)
        queue.submit(f"light{number}", spec("ink"), tenant="light")
    line = sorted(f"{who}{number}" for who in ("heavy", "light") for number in range(4))
    line.sort(key=lambda job_id: queue.position(queue.get(job_id)) or 0)
    # Of equal weight they would have half of any even number.
    assert sum(job_id.startswith("heavy") for job_id in line[:6]) == 4


def test_turns_spread_as_jobs_were_measured_to_take(queue: Queue, client: redis.Redis) -> None:
    job_id = put(queue, "ink", steps=4)
    take(queue, job_id)
    client.hset(keys.JOB(job_id), "claimed_ms", queue.server_time_ms() - 8000)
    queue.succeed(job_id, 1, result(job_id, 1), [])
    assert 2_000_000 <= queue.stats(BASE)["step_us"] < 2_500_000
    early, late = put(queue, "ink", steps=2), put(queue, "ink")
    turns_ms = [int(client.hget(keys.JOB(job_id), "turn_ms") or 0) for job_id in (early, late)]
    assert 4000 <= turns_ms[1] - turns_ms[0] < 5000


def test_a_job_handed_back_to_an_empty_queue_stays_before_later_ones(queue: Queue) -> None:
    made = [put(queue, "ink") for _ in range(10)]
    for job_id in made:
        take(queue, job_id)
    later = put(queue, "ink")
    queue.give_back(made[-1], 1)
    assert queue.position(queue.get(made[-1])) == 0
    assert queue.position(queue.get(later)) == 1


def test_a_job_stored_by_an_older_version_keeps_its_place(queue: Queue, client: redis.Redis) -> None:
    # Before turns there were only ranks, and nobody wrote down who was ahead.
    old = put(queue, "ink")
    client.hdel(keys.JOB(old), "turn_ms")
    client.delete(keys.SHARES(BASE), keys.QUEUES())
    client.hdel(keys.STATS(BASE), "turn_ms")
    new = put(queue, "oil")
    assert [queue.position(queue.get(job_id)) for job_id in (old, new)] == [0, 1]
    take(queue, old)
    queue.give_back(old, 1)
    assert queue.position(queue.get(old)) == 0


def test_idempotency_key(queue: Queue) -> None:
    first = queue.submit("jobA", spec(), idempotency_key="k", body_sha256="1")
    assert queue.submit("jobB", spec(), idempotency_key="k", body_sha256="1") == first == "jobA"
    with pytest.raises(KeyReused):
        queue.submit("jobC", spec(), idempotency_key="k", body_sha256="2")
    with pytest.raises(JobNotFound):
        queue.get("jobB")
    assert queue.submit("jobD", spec(), idempotency_key="k", body_sha256="1", tenant="other") == "jobD"


def test_a_submit_sent_twice_is_one_job(queue: Queue) -> None:
    assert [queue.submit("jobA", spec()) for _ in range(2)] == ["jobA", "jobA"]
    assert queue.depth(BASE) == 1


def test_newest_first_in_pages(queue: Queue) -> None:
    made = [put(queue, "ink") for _ in range(5)]
    take(queue, made[0])
    both = (Status.QUEUED, Status.RUNNING)
    page, last = queue.newest(both, 3)
    assert [job.id for job in page] == made[:1:-1]
    assert last == (page[-1].created_ms, page[-1].id)
    rest, end = queue.newest(both, 3, before=last)
    assert [job.id for job in rest] == [made[1], made[0]]
    assert end is None
    assert [job.id for job in queue.newest([Status.RUNNING], 3)[0]] == [made[0]]


def test_a_record_that_vanished_does_not_end_the_list(queue: Queue, client: redis.Redis) -> None:
    made = [put(queue, "ink") for _ in range(5)]
    client.delete(keys.JOB(made[2]))
    page, last = queue.newest([Status.QUEUED], 3)
    assert [job.id for job in page] == [made[4], made[3]]
    rest, end = queue.newest([Status.QUEUED], 3, before=last)
    assert [job.id for job in rest] == [made[1], made[0]]
    assert end is None


def test_a_record_that_cannot_be_read_does_not_end_the_list(queue: Queue, client: redis.Redis) -> None:
    made = [put(queue, "ink") for _ in range(3)]
    client.hset(keys.JOB(made[1]), "spec", "{}")
    page, _ = queue.newest([Status.QUEUED], 3)
    assert [job.id for job in page] == [made[2], made[0]]


def test_a_job_that_moves_while_the_list_is_read_is_found_once(
    queue: Queue, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = put(queue)
    execute = client.execute_command

    def moving(*arguments: object, **options: object) -> object:
        answer = execute(*arguments, **options)
        if arguments[1:2] == (keys.INDEX(Status.QUEUED),):
            monkeypatch.undo()
            take(queue, job_id)
        return answer

    monkeypatch.setattr(client, "execute_command", moving)
    assert [job.id for job in queue.newest([Status.QUEUED, Status.RUNNING], 3)[0]] == [job_id]


def test_objects_of_a_lost_attempt_are_orphans(queue: Queue) -> None:
    job_id = put(queue)
    take(queue, job_id)
    mine, kept = f"jobs/{job_id}/1/0.png", f"jobs/{job_id}/2/0.png"
    assert queue.place(job_id, 1, [mine]) == "ok"
    assert queue.orphans(0) == []
    queue.abandon("w1", keep=[], counted=True)
    assert queue.orphans(0) == [mine]
    assert queue.orphans(0, forget=[mine]) == []
    take(queue, job_id)
    queue.place(job_id, 2, [kept])
    queue.succeed(job_id, 2, result(job_id, 2), [])
    assert queue.orphans(0) == []


def test_only_the_attempt_that_succeeded_is_done(queue: Queue) -> None:
    job_id = put(queue)
    take(queue, job_id)
    queue.abandon("w1", keep=[], counted=True)
    take(queue, job_id)
    queue.succeed(job_id, 2, result(job_id, 2), [])
    assert queue.place(job_id, 1, [f"jobs/{job_id}/1/0.png"]) == "lost"
    assert queue.place(job_id, 2, [f"jobs/{job_id}/2/0.png"]) == "done"
    assert queue.orphans(0) == []


def test_the_index_of_ended_jobs_forgets_what_is_long_gone(queue: Queue, client: redis.Redis) -> None:
    client.zadd(keys.INDEX(Status.CANCELLED), {"ended a year ago": 1})
    job_id = put(queue)
    queue.cancel(job_id)
    assert client.zrange(keys.INDEX(Status.CANCELLED), 0, -1) == [job_id]


def test_nothing_without_a_lifetime_is_left_when_work_is_done(
    queue: Queue, client: redis.Redis, config: Settings
) -> None:
    for end in ("succeed", "fail", "cancel", "expire"):
        job_id = put(queue, end, webhook=HOOK, deadline_seconds=3600)
        if end == "cancel":
            queue.cancel(job_id)
            continue
        take(queue, job_id)
        if end == "succeed":
            queue.place(job_id, 1, [f"jobs/{job_id}/1/0.png"])
            queue.succeed(job_id, 1, result(job_id, 1), [])
        elif end == "fail":
            queue.fail(job_id, 1, JobError(code="x", message="x", retryable=False))
        else:
            queue.stop(job_id, 1, "expired")
    outbox = Outbox(client, config)
    for row in outbox.take(10, 1000):
        assert outbox.settle(row, "delivered")
    # A drained worker that died without a word takes its drain with it.
    queue.drain("w1")
    Presence(client).report("w1", base_model=BASE, state="idle")
    permanent = {key for key in client.scan_iter("*") if client.ttl(key) < 0}
    assert permanent == {keys.STATS(BASE)}


def test_a_drain_lasts_as_long_as_its_worker(queue: Queue, client: redis.Redis) -> None:
    presence = Presence(client)
    queue.drain("w1")
    client.pexpire(keys.DRAINED("w1"), 60_000)
    presence.report("w1", base_model=BASE, state="idle")
    assert client.pttl(keys.DRAINED("w1")) > DRAINED_MS / 2
    presence.report("w2", base_model=BASE, state="idle")
    assert (queue.is_drained("w1"), queue.is_drained("w2")) == (True, False)
