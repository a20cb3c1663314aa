"""Pins, prefetch and their numbers with a real worker, the real model and files over real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.torch import save

from bench.flux_blocks import random_adapter
from shared.adapters.served import served_bases
from shared.catalogue import read_catalogue
from shared.job import PinnedAdapter, Status
from shared.meters import Meters
from shared.registry import RegisteredAdapter
from shared.server import connect_worker
from shared.settings import Settings
from shared.sources.sources import Sources
from tests.source_server import SourceServer, running
from tests.worker.processes import wait_for, yard
from tests.worker.test_process import BASE, Stand

NETWORKS = "127.0.0.0/8"
LONG = 60
"""Steps of a job that is drawn for long enough."""


@pytest.fixture
def server() -> Iterator[SourceServer]:
    with running() as server:
        yield server


@pytest.fixture
def stand(redis_url: str, tmp_path: Path) -> Iterator[Stand]:
    settings = Settings(redis_url=redis_url, lease_ms=3000)
    changes = {"lease_ms": "3000", "stop_grace_s": "20", "adapter_allowed_networks": NETWORKS}
    with yard(tmp_path, redis_url, **changes) as made, connect_worker(settings) as client:
        yield Stand(made, client, settings)


def remote(server: SourceServer, name: str, seed: int, **how: object) -> PinnedAdapter:
    layers = served_bases(read_catalogue())[BASE].layers
    url = server.serve(f"/{name}", save(random_adapter(layers, (".attn.",), 4, seed)), **how)
    sources = Sources(Settings.model_validate({"adapter_allowed_networks": NETWORKS}))
    identity = sources.open_source(url).identity
    return PinnedAdapter(source=name, scale=1.0, sha256=None, location=identity.location, revision=identity.revision)


def test_pinned_and_next_adapters_are_in_memory_before_their_jobs(stand: Stand, server: SourceServer) -> None:
    pinned, first, second = (remote(server, name, seed) for seed, name in enumerate(("pinned", "first", "second")))
    stand.registry.put(
        RegisteredAdapter(
            name="sketch",
            base_model=BASE,
            sha256=None,
            location=pinned.location,
            revision=pinned.revision,
            rank=4,
        )
    )
    stand.registry.pin("sketch", 1)
    worker = stand.worker()
    wait_for("the pinned one", lambda: "sketch" in stand.presence.alive()[0].warm)
    downloads = len(server.asked)

    jobs = [
        stand.submit(adapters=[first], steps=LONG),
        stand.submit(adapters=[second]),
        stand.submit(adapters=[pinned]),
    ]
    done = [stand.until(job_id, Status.SUCCEEDED) for job_id in jobs]
    assert len(server.asked) == downloads + 2

    def counted() -> dict[str, int] | None:
        meters = Meters(stand.client).read(BASE)
        return meters if sum(meters.get(f"hits_{tier}", 0) for tier in ("memory", "disk", "remote")) == 3 else None

    meters = wait_for("the worker's numbers", counted)
    assert meters["hits_memory"] >= 2, worker.log()
    assert meters["prefetched"] >= 2
    assert meters["fetch_count"] == 3
    assert meters["swap_count"] == 3
    # Those that come with the model too.
    assert meters["convert_count"] == 3 + len(read_catalogue().get(BASE).builtin_adapters)
    assert "recompiles" not in meters
    (seen,) = stand.presence.alive()
    assert seen.warm_adapters == meters["convert_count"]
    assert seen.warm_bytes > 0
    assert len({job.result.images[0].sha256 for job in done if job.result}) == 3
    assert worker.term() == 0, worker.log()
    assert "Traceback" not in worker.log()


def test_a_stop_does_not_wait_for_a_slow_source(stand: Stand, server: SourceServer) -> None:
    slow = remote(server, "slow", 1, chunk_pause_s=1.0)
    worker = stand.worker()
    asked = len(server.asked)
    drawn, waiting = stand.submit("night", steps=LONG), stand.submit(adapters=[slow])
    wait_for("the prefetch to begin", lambda: len(server.asked) > asked)
    assert worker.term() == 0, worker.log()
    assert stand.queue.get(drawn).status in (Status.SUCCEEDED, Status.QUEUED)
    assert stand.queue.get(waiting).status is Status.QUEUED
    assert "Traceback" not in worker.log()
