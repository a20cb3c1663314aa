"""Prefetching around a fake engine: a real server, real files over real sockets, real threads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from threading import Event

import pytest

from shared.errors import AdapterNotFinite
from shared.job import PinnedAdapter, Status
from shared.registry import RegisteredAdapter
from shared.settings import Settings
from shared.sources.sources import Sources
from tests.shared.jobs import adapter
from tests.shared.sources.safetensors_bytes import small
from tests.source_server import SourceServer, running
from tests.worker.processes import wait_for
from tests.worker.test_path import BASE, Bench, bench, client
from tests.worker.test_path_sources import web_settings
from worker.choose import Here
from worker.engine_types import AdapterFile
from worker.fetch import Fetcher
from worker.memory import Memory

__all__ = ["bench", "client"]

BODY = small(b"\1", 400_000)


@pytest.fixture
def ready(bench: Bench) -> Bench:
    """A worker whose engine keeps adapters; its prefetcher has looked at a first job."""
    bench.engine.memory = Memory(100)
    bench.supply_from(Fetcher.of(web_settings(bench)))
    look(bench)
    return bench


@pytest.fixture
def server() -> Iterator[SourceServer]:
    with running() as server:
        yield server


def look(bench: Bench, resident: str = "none") -> None:
    bench.desk.prefetcher.look_ahead(Here(resident, 1), bench.desk.measured.pace)


def remote(bench: Bench, url: str) -> PinnedAdapter:
    identity = Sources(web_settings(bench)).open_source(url).identity
    return PinnedAdapter(source=url, scale=1.0, sha256=None, location=identity.location, revision=identity.revision)


def kept(bench: Bench) -> set[str]:
    return set(bench.engine.memory.sha256s)


def test_a_round_brings_what_the_next_groups_need(ready: Bench) -> None:
    for name in ("ink", "oil", "ink"):
        ready.submit(name)
    ready.desk.prefetcher.round()
    assert kept(ready) == {adapter(name).sha256 for name in ("ink", "oil")}
    assert ready.desk.tally.total("prefetched") == 2
    job = ready.serve()
    assert job is not None
    assert ready.desk.tally.total("hits_memory") == 1
    assert ready.engine.memory.made == 2


def test_combinations_are_brought_whole(ready: Bench) -> None:
    ready.submit("ink", "wax")
    ready.desk.prefetcher.round()
    assert kept(ready) == {adapter(name).sha256 for name in ("ink", "wax")}


def test_nothing_waits_and_nothing_is_done(ready: Bench) -> None:
    ready.desk.prefetcher.round()
    assert kept(ready) == set()


def test_a_file_from_elsewhere_is_there_when_its_job_begins(ready: Bench, server: SourceServer) -> None:
    job_id = ready.submit(adapters=[remote(ready, server.serve("/a", BODY))])
    asked = len(server.asked)
    ready.desk.prefetcher.round()
    assert kept(ready) == {sha256(BODY).hexdigest()}
    assert len(server.asked) == asked + 1
    ready.serve()
    assert ready.ended(job_id).status is Status.SUCCEEDED
    assert len(server.asked) == asked + 1
    tally = ready.desk.tally
    assert (tally.total("hits_memory"), tally.total("hits_remote"), tally.total("fetch_count")) == (1, 0, 1)


def test_hits_by_tier(ready: Bench, server: SourceServer) -> None:
    there = remote(ready, server.serve("/a", BODY))
    for adapters in ([there], [there], [adapter("ink")], [there]):
        ready.submit(adapters=adapters)
        ready.serve()
    ready.engine.memory = Memory(100)
    ready.submit("oil")
    ready.serve()
    ready.submit(adapters=[there])
    ready.serve()
    total = ready.desk.tally.total
    assert (total("hits_remote"), total("hits_slot"), total("hits_disk"), total("hits_memory")) == (1, 1, 3, 1)
    assert total("swap_count") == 5


def test_a_failure_hurts_nobody_and_is_not_repeated(ready: Bench, server: SourceServer) -> None:
    tries = []

    def refuse(file: AdapterFile) -> None:
        tries.append(file.source)
        if file.source == "ink":
            raise AdapterNotFinite("adapters: ink holds NaN.")
        if file.source == "oil":
            raise RuntimeError("a bug")

    ready.engine.on_convert = refuse
    jobs = [ready.submit(name) for name in ("ink", "oil", "wax")]
    away = ready.submit(adapters=[remote(ready, server.serve("/a", BODY))])
    server.files["/a"].status = 404
    ready.desk.prefetcher.round()
    ready.desk.prefetcher.round()
    assert sorted(tries) == ["ink", "oil", "wax"]
    assert kept(ready) == {adapter("wax").sha256}
    while ready.serve():
        pass
    assert [ready.ended(job_id).status for job_id in jobs] == [Status.FAILED, Status.FAILED, Status.SUCCEEDED]
    assert ready.ended(away).status is Status.FAILED


def test_a_memory_too_small_for_what_is_ahead_keeps_what_is_needed_first(ready: Bench) -> None:
    ready.engine.memory = Memory(2)
    ready.supply_from(Fetcher.of(web_settings(ready)))
    look(ready)
    for name in ("ink", "oil", "wax"):
        ready.submit(name)
    ready.desk.prefetcher.round()
    assert ready.engine.memory.made == 3
    assert adapter("ink").sha256 in kept(ready)


def register(bench: Bench, name: str, pinned: PinnedAdapter) -> None:
    bench.registry.put(
        RegisteredAdapter(
            name=name,
            base_model=BASE,
            sha256=pinned.sha256,
            location=pinned.location,
            revision=pinned.revision,
            rank=4,
        )
    )


def test_pinned_adapters_are_warmed_and_stay(ready: Bench, server: SourceServer) -> None:
    ready.engine.memory = Memory(2)
    ready.supply_from(Fetcher.of(web_settings(ready)))
    register(ready, "sketch", remote(ready, server.serve("/a", BODY)))
    register(ready, "other", adapter("ink"))
    ready.registry.pin("sketch", 1)
    ready.desk.prefetcher.round()
    ready.desk.prefetcher.round()
    assert kept(ready) == {sha256(BODY).hexdigest()}
    assert ready.desk.supply.shown(8) == ("sketch",)
    for name in ("ink", "oil", "wax"):
        ready.submit(name)
        ready.serve()
    assert kept(ready) == {sha256(BODY).hexdigest(), adapter("wax").sha256}


def test_prefetching_none_still_warms_what_is_pinned(ready: Bench) -> None:
    ready.desk.prefetcher._groups = 0
    ready.submit("oil")
    register(ready, "ink", adapter("ink"))
    ready.registry.pin("ink", 1)
    ready.desk.prefetcher.round()
    assert kept(ready) == {adapter("ink").sha256}


def test_it_makes_way_for_what_a_job_fetches(ready: Bench, server: SourceServer) -> None:
    slow = remote(ready, server.serve("/slow", BODY * 8, chunk_pause_s=0.02))
    ready.submit(adapters=[slow])
    with ThreadPoolExecutor(1) as pool:
        sent = server.sent_bytes
        doing = pool.submit(ready.desk.prefetcher.round)
        wait_for("its first bytes", lambda: server.sent_bytes > sent + 2 * len(BODY) // 10)
        with ready.desk.prefetcher.aside_for([adapter("ink")]):
            doing.result(30)
            assert kept(ready) == set()
            # Nothing is begun meanwhile.
            ready.desk.prefetcher.round()
            assert kept(ready) == set()
    ready.desk.prefetcher.round()
    assert len(kept(ready)) == 1
    ranges = [one.headers.get("range", "") for one in server.asked_for("/slow")]
    assert not ranges[-1].startswith("bytes=0-"), "what was there is not fetched again"


def test_a_job_that_needs_what_is_being_fetched_waits_for_it(ready: Bench, server: SourceServer) -> None:
    job_id = ready.submit(adapters=[remote(ready, server.serve("/a", BODY, chunk_pause_s=0.05))])
    asked = len(server.asked)
    with ThreadPoolExecutor(1) as pool:
        doing = pool.submit(ready.desk.prefetcher.round)
        wait_for("the download to begin", lambda: len(server.asked) > asked)
        ready.serve()
        doing.result(30)
    assert ready.ended(job_id).status is Status.SUCCEEDED
    assert len(server.asked) == asked + 1
    assert ready.engine.memory.made == 1


def test_a_stop_ends_it_at_once(ready: Bench, server: SourceServer) -> None:
    ready.submit(adapters=[remote(ready, server.serve("/a", BODY * 8, chunk_pause_s=0.1))])
    asked = len(server.asked)
    ready.desk.prefetcher.start()
    wait_for("the download to begin", lambda: len(server.asked) > asked)
    ready.stop_at_s = time.monotonic() + 60
    ready.desk.prefetcher.stop()
    assert not ready.desk.prefetcher._rounds.alive
    assert kept(ready) == set()


def test_the_thread_works_while_a_job_is_drawn(ready: Bench) -> None:
    """The second job's adapter is in memory before the first job is done."""
    ready.submit("ink")
    ready.submit("oil")
    brought = Event()
    ready.engine.on_convert = lambda file: brought.set() if file.source == "oil" else None
    ready.engine.on_draw_step = lambda done: None if brought.wait(30) else pytest.fail("not brought in time")
    ready.desk.prefetcher.start()
    first = ready.serve()
    ready.desk.prefetcher.stop()
    assert first is not None
    assert [one.source for one in first.spec.adapters] == ["ink"]
    assert brought.is_set()


def test_the_server_may_be_away(ready: Bench, unused_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from shared.errors import QueueUnavailable
    from shared.queue import Queue
    from shared.server import connect_api

    away = Queue(
        connect_api(Settings.model_validate({"redis_url": f"redis://127.0.0.1:{unused_port}/0"})), ready.settings
    )
    prefetcher = ready.desk.prefetcher
    monkeypatch.setattr(prefetcher, "_queue", away)
    with pytest.raises(QueueUnavailable):
        prefetcher.round()
    prefetcher.start()
    look(ready)
    time.sleep(0.2)
    assert prefetcher._rounds.alive
    prefetcher.stop()
