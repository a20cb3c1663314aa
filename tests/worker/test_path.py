"""The way of one job: a fake engine, a real server, a real folder store."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Timer

import pytest
import redis
from PIL import Image

from shared import keys
from shared.catalogue import read_catalogue
from shared.errors import AdapterNotFinite, QueueUnavailable, StoreUnavailable
from shared.job import Job, Status
from shared.queue import Queue
from shared.receipt import check_signature
from shared.registry import Registry
from shared.server import connect_worker
from shared.settings import Settings
from shared.storage import Store, open_store
from tests.shared.jobs import spec
from tests.shared.test_receipt import SIGNER
from tests.worker.fakes import FakeEngine
from worker.busy import Busy
from worker.choose import Limits
from worker.fetch import Fetcher
from worker.memory import Memory
from worker.next_job import NextJob
from worker.path import Desk, serve_one
from worker.prefetch import Prefetcher
from worker.spool import Spool
from worker.supply import Supply
from worker.tally import Tally
from worker.upload import MOST_PENDING, Uploads

BASE = "tiny-flux"
NAMES = ("ink", "oil", "wax")


@dataclass
class Bench:
    """A desk and what stands around it."""

    desk: Desk
    engine: FakeEngine
    queue: Queue
    registry: Registry
    store: Store
    settings: Settings
    numbers: Iterator[int]
    stop_at_s: float = 0.0

    def supply_from(self, fetcher: Fetcher) -> None:
        """Let adapters be fetched by this one, and by a new prefetcher that is not started."""
        desk = self.desk
        builtin = {name: self.settings.data_folder / name for name in NAMES}
        desk.supply = Supply(self.engine, fetcher, builtin, None, desk.tally)
        desk.prefetcher = Prefetcher(
            BASE, "w1", self.queue, self.registry, desk.supply, desk.tally, desk.limits, 4, lambda: self.stop_at_s
        )

    def submit(self, *adapters: str, **changes: object) -> str:
        time.sleep(0.002)
        return self.queue.submit(f"job{next(self.numbers):06}", spec(*adapters, **changes))

    def serve(self) -> Job | None:
        return serve_one(self.desk, lambda job: None)

    def ended(self, job_id: str) -> Job:
        """The job once its upload is through."""
        self.desk.uploads.close(10)
        self.desk.uploads = new_uploads(self.queue, self.store, self.desk.spool)
        return self.queue.get(job_id)


def new_uploads(queue: Queue, store: Store, spool: Spool) -> Uploads:
    return Uploads(queue, store, spool, budget_s=5, on_end=lambda: None, sign=SIGNER.signed)


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with connect_worker(Settings(redis_url=redis_url)) as client:
        yield client


@pytest.fixture
def bench(redis_url: str, client: redis.Redis, tmp_path: Path) -> Iterator[Bench]:
    settings = Settings(redis_url=redis_url, data_folder=tmp_path, cache_folder=tmp_path / "cache")
    queue, store, engine = Queue(client, settings), open_store(settings), FakeEngine()
    spool = Spool(tmp_path / "spool", "w1")
    spool.own()
    limits, tally = Limits(streak_max=16, overtake_max=64, payback=1e9, slack_jobs=2), Tally()
    made: list[Bench] = []
    supply, busy = Supply(engine, Fetcher.of(settings), {}, None, tally), Busy()
    desk = Desk(
        name="w1",
        holder="w1",
        entry=read_catalogue().get(BASE),
        queue=queue,
        engine=engine,
        spool=spool,
        uploads=new_uploads(queue, store, spool),
        limits=limits,
        lease_ms=settings.lease_ms,
        supply=supply,
        prefetcher=Prefetcher(BASE, "w1", queue, Registry(client), supply, tally, limits, 4, lambda: 0.0),
        next_job=NextJob(BASE, "w1", queue, supply, limits, busy, lambda: made[0].stop_at_s, lambda job: None),
        tally=tally,
        stop_at_s=lambda: made[0].stop_at_s,
        busy=busy,
    )
    made.append(Bench(desk, engine, queue, Registry(client), store, settings, iter(range(1, 1000))))
    made[0].supply_from(Fetcher.of(settings))
    yield made[0]
    made[0].desk.uploads.close(5)


def test_a_job_from_the_queue_to_the_store(bench: Bench) -> None:
    job_id = bench.submit("ink", num_images=2, seed=40)
    bench.serve()
    job = bench.ended(job_id)
    assert job.status is Status.SUCCEEDED
    assert job.result is not None
    assert [image.seed for image in job.result.images] == [40, 41]
    assert job.result.receipt.images_sha256 == [image.sha256 for image in job.result.images]
    assert [one.source for one in job.result.receipt.adapters] == ["ink"]
    assert job.result.receipt.job == job.id
    receipt = job.result.receipt.model_dump(mode="json")
    assert check_signature(receipt, {SIGNER.key_id: SIGNER.public_key}) == SIGNER.key_id
    stages = {"queued", "fetch", "swap", "encode_prompt", "denoise", "decode", "encode_image", "upload"}
    assert set(job.result.timings_ms) == stages
    greys = [Image.open(io.BytesIO(bench.store.get(image.key))).getpixel((0, 0)) for image in job.result.images]
    assert greys == [(88, 88, 88), (89, 89, 89)]
    assert (job.step, job.steps) == (8, 8)
    assert bench.desk.spool.pending() == []


def test_nothing_waits(bench: Bench) -> None:
    assert bench.serve() is None


def test_order_saves_swaps(bench: Bench) -> None:
    for number in range(12):
        bench.submit(*[("ink",), ("oil",), ()][number % 3])
    while bench.serve():
        pass
    # "none" is what the slot holds at the start, so its jobs go first.
    assert bench.engine.drawn == [()] * 4 + [("ink",)] * 4 + [("oil",)] * 4
    assert bench.desk.swaps == bench.queue.stats(BASE)["swaps"] == 2


def test_almost_free_swaps_leave_the_order_of_arrival(bench: Bench) -> None:
    bench.desk.limits = Limits(streak_max=16, overtake_max=64, payback=0.0001, slack_jobs=2)
    for number in range(6):
        bench.submit(*[("ink",), ()][number % 2])
    while bench.serve():
        pass
    assert bench.engine.drawn == [("ink",), ()] * 3


def test_a_worker_measures_swaps_and_drawing(bench: Bench) -> None:
    bench.engine.memory = Memory(1 << 20)
    bench.engine.on_prepare = lambda adapters: time.sleep(0.02)
    bench.engine.on_draw_step = lambda done: time.sleep(0.005)
    for name in ("ink", "ink", "oil", "ink"):
        bench.submit(name)
        bench.serve()
    pace = bench.desk.measured.pace
    assert pace.service_ms >= 20
    assert pace.cold_swap_ms >= 20
    assert pace.warm_swap_ms >= 20
    assert bench.desk.swaps == 3


@pytest.mark.parametrize(
    ("kind", "suffix", "magic"), [("png", "png", b"\x89PNG"), ("jpeg", "jpg", b"\xff\xd8"), ("webp", "webp", b"RIFF")]
)
def test_formats(bench: Bench, kind: str, suffix: str, magic: bytes) -> None:
    job_id = bench.submit(format=kind)
    bench.serve()
    result = bench.ended(job_id).result
    assert result is not None
    assert result.images[0].key == f"jobs/{job_id}/1/0.{suffix}"
    assert bench.store.get(result.images[0].key).startswith(magic)


def test_cancel_while_drawing(bench: Bench) -> None:
    job_id = bench.submit("ink", steps=50)

    def cancel(done: int) -> None:
        if done == 2:
            bench.queue.cancel(job_id)

    bench.engine.on_draw_step = cancel
    bench.serve()
    job = bench.ended(job_id)
    assert (job.status, job.step, job.result) == (Status.CANCELLED, 2, None)
    assert list(bench.store.list("jobs/")) == []


def test_cancel_after_drawing_leaves_no_image(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = bench.submit("ink")
    put = bench.store.put

    def put_then_cancel(key: str, data: bytes, content_type: str) -> None:
        put(key, data, content_type)
        bench.queue.cancel(job_id)

    monkeypatch.setattr(bench.store, "put", put_then_cancel)
    bench.serve()
    job = bench.ended(job_id)
    assert (job.status, job.result) == (Status.CANCELLED, None)
    assert list(bench.store.list("jobs/")) == []


def test_a_bad_adapter_fails_its_own_job_only(bench: Bench) -> None:
    bad, good = bench.submit("ink"), bench.submit("oil")

    def refuse(adapters: object) -> None:
        bench.engine.on_prepare = lambda adapters: None
        raise AdapterNotFinite("adapters: ink holds NaN.")

    bench.engine.on_prepare = refuse
    bench.serve()
    bench.serve()
    failed = bench.queue.get(bad)
    assert failed.status is Status.FAILED
    assert failed.error is not None
    assert (failed.error.code, failed.error.retryable) == ("adapter_not_finite", False)
    assert bench.ended(good).status is Status.SUCCEEDED


def test_an_unexpected_error_names_no_secret(bench: Bench) -> None:
    job_id = bench.submit()

    def crash(done: int) -> None:
        raise RuntimeError("password=hunter2")

    bench.engine.on_draw_step = crash
    bench.serve()
    error = bench.queue.get(job_id).error
    assert error is not None
    assert (error.code, error.retryable) == ("generation_failed", True)
    assert "hunter2" not in error.message


def test_shutdown_hands_a_long_job_back_for_free(bench: Bench) -> None:
    job_id = bench.submit("ink", steps=50)

    def stop(done: int) -> None:
        if done == 3:
            bench.stop_at_s = time.monotonic() - 1

    bench.engine.on_draw_step = stop
    bench.serve()
    job = bench.queue.get(job_id)
    assert (job.status, job.losses, job.step) == (Status.QUEUED, 0, 0)


def test_shutdown_lets_a_short_job_end(bench: Bench) -> None:
    job_id = bench.submit("ink")
    bench.stop_at_s = time.monotonic() + 60
    bench.serve()
    assert bench.ended(job_id).status is Status.SUCCEEDED


def test_a_lost_lease_ends_nothing(bench: Bench) -> None:
    job_id = bench.submit("ink", steps=50)

    def lose(done: int) -> None:
        if done == 2:
            bench.queue.abandon("w1", keep=[], counted=True)

    bench.engine.on_draw_step = lose
    bench.serve()
    job = bench.queue.get(job_id)
    assert (job.status, job.losses) == (Status.QUEUED, 1)
    assert bench.engine.drawn == []


def test_images_of_an_attempt_that_was_taken_over_are_dropped(bench: Bench) -> None:
    job_id = bench.submit("ink", steps=4)
    put = bench.store.put

    def lose_then_put(key: str, data: bytes, content_type: str) -> None:
        bench.queue.abandon("w1", keep=[], counted=True)
        put(key, data, content_type)

    bench.store.put = lose_then_put  # type: ignore[method-assign]
    bench.serve()
    assert bench.ended(job_id).status is Status.QUEUED
    assert list(bench.store.list("jobs/")) == []


def test_the_store_comes_back(bench: Bench) -> None:
    job_id = bench.submit()
    bench.store.put = failing_first(bench.store.put, times=2)  # type: ignore[method-assign]
    bench.serve()
    assert bench.ended(job_id).status is Status.SUCCEEDED


def test_the_store_stays_away(bench: Bench) -> None:
    bench.desk.uploads.close(5)
    bench.desk.uploads = Uploads(
        bench.queue, bench.store, bench.desk.spool, budget_s=0.3, on_end=lambda: None, sign=SIGNER.signed
    )
    job_id = bench.submit()
    bench.store.put = failing_first(bench.store.put, times=1000)  # type: ignore[method-assign]
    bench.serve()
    error = bench.ended(job_id).error
    assert error is not None
    assert (error.code, error.retryable) == ("store_unavailable", True)


def test_an_upload_that_a_crash_interrupted_is_resumed_without_drawing_again(bench: Bench) -> None:
    bench.desk.uploads.close(5)
    bench.desk.uploads = NoUploads()  # type: ignore[assignment]
    job_id = bench.submit("ink")
    bench.serve()
    (spooled,) = bench.desk.spool.pending()
    bench.queue.abandon("w1", keep=[spooled.job_id], counted=True)
    bench.desk.uploads = new_uploads(bench.queue, bench.store, bench.desk.spool)
    bench.desk.uploads.add(spooled)
    job = bench.ended(job_id)
    assert (job.status, job.attempt, job.losses) == (Status.SUCCEEDED, 1, 0)
    assert bench.engine.drawn == [("ink",)]


def test_a_crash_right_after_the_end_of_a_job_leaves_its_images(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = bench.submit("ink")
    with monkeypatch.context() as patch:
        # As if the process died before it could.
        patch.setattr(bench.desk.spool, "remove", lambda spooled: None)
        bench.serve()
        bench.desk.uploads._thread.shutdown()
    (spooled,) = bench.desk.spool.pending()
    assert bench.queue.get(job_id).status is Status.SUCCEEDED
    bench.desk.uploads = new_uploads(bench.queue, bench.store, bench.desk.spool)
    bench.desk.uploads.add(spooled)
    job = bench.ended(job_id)
    assert job.result is not None
    assert list(bench.store.list("jobs/")) == [image.key for image in job.result.images]
    assert bench.desk.spool.pending() == []
    assert bench.queue.orphans(0) == []


def test_a_claim_whose_answer_was_lost_is_found_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = bench.submit("ink")
    claim, tries = bench.queue.claim, []

    def answer_lost_at_first(*arguments: str, **options: str) -> object:
        claimed = claim(*arguments, **options)
        tries.append(claimed)
        if len(tries) == 1:
            raise QueueUnavailable("The job server does not answer.")
        return claimed

    monkeypatch.setattr(bench.queue, "claim", answer_lost_at_first)
    bench.serve()
    job = bench.ended(job_id)
    assert len(tries) == 2
    assert (job.status, job.attempt, job.losses) == (Status.SUCCEEDED, 1, 0)


def test_a_full_server_delays_a_job_and_loses_nothing(bench: Bench, client: redis.Redis) -> None:
    job_id = bench.submit("ink")
    put = bench.store.put

    def put_and_fill(key: str, data: bytes, content_type: str) -> None:
        put(key, data, content_type)
        client.config_set("maxmemory", "1")
        Timer(0.5, client.config_set, ("maxmemory", "0")).start()

    bench.store.put = put_and_fill  # type: ignore[method-assign]
    bench.serve()
    job = bench.ended(job_id)
    assert (job.status, job.attempt, job.losses) == (Status.SUCCEEDED, 1, 0)


def test_a_stopping_worker_does_not_wait_for_a_store_that_is_away(bench: Bench) -> None:
    bench.desk.uploads.close(5)
    stop_at_s = bench.desk.stop_at_s
    bench.desk.uploads = Uploads(
        bench.queue, bench.store, bench.desk.spool, 600, lambda: None, SIGNER.signed, stop_at_s
    )
    bench.store.put = failing_first(bench.store.put, times=10**6)  # type: ignore[method-assign]
    ids = [bench.submit("ink") for _ in range(MOST_PENDING + 1)]
    for _ in range(MOST_PENDING):
        bench.serve()
    bench.stop_at_s = time.monotonic() + 1
    bench.serve()
    bench.desk.uploads.close(1)
    jobs = [bench.queue.get(job_id) for job_id in ids]
    assert {(job.status, job.losses) for job in jobs} == {(Status.QUEUED, 0)}
    assert bench.desk.spool.pending() == []


def test_faults_of_the_worker_are_counted_in_a_row(bench: Bench) -> None:
    def crash(done: int) -> None:
        raise RuntimeError("the device is gone")

    bench.engine.on_draw_step = crash
    for _ in range(2):
        bench.submit("ink")
        bench.serve()
    assert bench.desk.faults == 2
    bench.engine.on_draw_step = lambda done: None
    bench.submit("ink")
    bench.serve()
    assert bench.desk.faults == 0


def test_the_bound_is_kept_by_workers_that_choose_at_once(bench: Bench, client: redis.Redis) -> None:
    bench.queue._settings = bench.settings.model_copy(update={"overtake_max": 2})
    bench.submit("oil")
    for _ in range(4):
        bench.submit("ink")
    bench.desk.resident = bench.queue.look(BASE)[1].key
    for _ in range(5):
        bench.serve()
    assert bench.engine.drawn == [("ink",), ("ink",), ("oil",), ("ink",), ("ink",)]
    assert client.zcard(keys.CLAIMS(BASE)) == 0


class NoUploads:
    """A child that dies before its upload begins."""

    def add(self, spooled: object) -> None: ...

    def close(self, timeout_s: float) -> None: ...


def failing_first(put: Callable[[str, bytes, str], None], times: int) -> Callable[[str, bytes, str], None]:
    left = times

    def attempt(key: str, data: bytes, content_type: str) -> None:
        nonlocal left
        if left:
            left -= 1
            raise StoreUnavailable("The store does not answer; try again.")
        partial(put, key, data, content_type)()

    return attempt
