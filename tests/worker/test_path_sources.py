"""The way of a job whose adapter comes from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from shared.errors import AdapterChanged
from shared.job import Job, PinnedAdapter, Status
from shared.settings import Settings
from shared.sources.source import shown
from shared.sources.sources import Sources
from tests.shared.sources.safetensors_bytes import small
from tests.source_server import SourceServer, running
from tests.worker.test_path import Bench, bench, client
from worker.engine_types import AdapterFile
from worker.fetch import Fetcher
from worker.path import serve_one

__all__ = ["bench", "client"]

BODY = small(b"\1", 400_000)


@pytest.fixture
def server(bench: Bench) -> Iterator[SourceServer]:
    with running() as server:
        bench.supply_from(Fetcher.of(web_settings(bench)))
        yield server


def web_settings(bench: Bench) -> Settings:
    folder = bench.settings.data_folder / "cache"
    return Settings.model_validate(
        {"cache_folder": folder, "adapter_cache_spare_bytes": 0, "adapter_allowed_networks": "127.0.0.1/32"}
    )


def submit(bench: Bench, url: str) -> str:
    identity = Sources(web_settings(bench)).open_source(url).identity
    adapter = PinnedAdapter(
        source=shown(url), scale=1.0, sha256=None, location=identity.location, revision=identity.revision
    )
    return bench.submit(adapters=[adapter])


def served(bench: Bench, job_id: str) -> Job:
    bench.serve()
    return bench.ended(job_id)


def test_the_receipt_has_the_hash_that_the_worker_computed(bench: Bench, server: SourceServer) -> None:
    job = served(bench, submit(bench, server.serve("/a", BODY) + "?Signature=hunter2"))
    assert job.result is not None
    (applied,) = job.result.receipt.adapters
    assert applied.sha256 == sha256(BODY).hexdigest()
    assert (applied.source, applied.revision) == (f"{server.url}/a?…", 'etag:"v1"')
    assert bench.desk.resident_sources == (f"{server.url}/a?…",)
    assert "hunter2" not in job.result.model_dump_json()


def test_two_jobs_that_need_the_same_cold_adapter_download_it_once(bench: Bench, server: SourceServer) -> None:
    url = server.serve("/a", BODY)
    jobs = [submit(bench, url) for _ in range(2)]
    asked = len(server.asked)
    assert [served(bench, job).status for job in jobs] == [Status.SUCCEEDED] * 2
    assert len(server.asked) == asked + 1


def test_a_file_that_is_replaced_while_the_job_waits_fails_it(bench: Bench, server: SourceServer) -> None:
    waiting = submit(bench, server.serve("/a", BODY))
    later = submit(bench, server.serve("/a", BODY[::-1], headers={"ETag": '"v2"'}))
    failed, drawn = served(bench, waiting), served(bench, later)
    assert failed.error is not None
    assert (failed.status, failed.error.code) == (Status.FAILED, "adapter_changed")
    assert drawn.result is not None
    assert drawn.result.receipt.adapters[0].sha256 == sha256(BODY[::-1]).hexdigest()


def test_a_file_that_is_replaced_but_warm_is_drawn_as_admitted(bench: Bench, server: SourceServer) -> None:
    url = server.serve("/a", BODY)
    first, second = submit(bench, url), submit(bench, url)
    served(bench, first)
    server.serve("/a", BODY[::-1], headers={"ETag": '"v2"'})
    job = served(bench, second)
    assert job.result is not None
    assert job.result.receipt.adapters[0].sha256 == sha256(BODY).hexdigest()


def test_a_cached_file_that_went_bad_is_fetched_anew(bench: Bench, server: SourceServer) -> None:
    url = server.serve("/a", BODY)
    served(bench, submit(bench, url))
    (cached,) = (bench.settings.data_folder / "cache" / "adapter-cache" / "files").iterdir()
    cached.write_bytes(BODY[::-1])

    def prove(files: Sequence[AdapterFile]) -> None:
        for one in files:
            if sha256(Path(one.path).read_bytes()).hexdigest() != one.sha256:
                raise AdapterChanged("not the bytes that the job was admitted with.")

    bench.engine.on_prepare = prove
    assert served(bench, submit(bench, url)).status is Status.SUCCEEDED


def test_bytes_that_are_wrong_from_the_start_fail_the_job(bench: Bench, server: SourceServer) -> None:
    def refuse(files: Sequence[AdapterFile]) -> None:
        raise AdapterChanged("not the bytes that the job was admitted with.")

    bench.engine.on_prepare = refuse
    job = served(bench, submit(bench, server.serve("/a", BODY)))
    assert job.error is not None
    assert job.error.code == "adapter_changed"


def test_a_source_that_is_away_fails_the_job_which_can_be_tried_again(bench: Bench, server: SourceServer) -> None:
    job_id = submit(bench, server.serve("/a", BODY))
    server.files["/a"].status = 503
    job = served(bench, job_id)
    assert job.error is not None
    assert (job.error.code, job.error.retryable) == ("adapter_source_unavailable", True)


def test_a_worker_that_stops_while_it_fetches_hands_the_job_back(bench: Bench, server: SourceServer) -> None:
    job_id = submit(bench, server.serve("/a", BODY, chunk_pause_s=0.01))
    bench.stop_at_s = 1e12
    bench.serve()
    job = bench.queue.get(job_id)
    assert (job.status, job.losses) == (Status.QUEUED, 0)
    bench.stop_at_s = 0.0
    assert served(bench, job_id).status is Status.SUCCEEDED


def test_a_cancel_ends_the_fetching(bench: Bench, server: SourceServer) -> None:
    bench.desk.lease_ms = 60
    job_id = submit(bench, server.serve("/a", BODY, chunk_pause_s=0.3))
    asked = len(server.asked)

    def cancel_when_claimed(job: Job) -> None:
        bench.queue.cancel(job_id)

    serve_one(bench.desk, cancel_when_claimed)
    assert bench.queue.get(job_id).status is Status.CANCELLED
    assert len(server.asked) == asked + 1
    assert bench.engine.drawn == []
