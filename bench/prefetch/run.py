"""One real worker after the other, with and without prefetch, on a queue in which every job needs a cold adapter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from safetensors.torch import save

from bench.flux_blocks import random_adapter
from bench.prefetch.account import Measured, drawn_of, summed
from bench.prefetch.server import SlowServer, running_slow_server
from cli.environment import for_python, with_decided, without_settings
from shared.adapters.served import served_bases
from shared.catalogue import read_catalogue
from shared.embedded import EmbeddedServer
from shared.job import Job, JobSpec, PinnedAdapter
from shared.meters import Meters
from shared.presence import Presence
from shared.queue import Queue
from shared.server import connect_worker
from shared.settings import Settings
from shared.sources.sources import Sources
from shared.tickets import Tickets

BASE = "tiny-flux"
RANK = 32
CALIBRATING = 3
PATIENCE_S = 600.0
NETWORKS = "127.0.0.0/8"
HITS = ("hits_memory", "hits_disk", "hits_remote")
T = TypeVar("T")


def run(jobs: int, rounds: int, steps: int, fetch_share: float, groups: int, folder: Path) -> dict[str, Any]:
    """Both in turn, each time with adapters of their own, so that none is warm already.

    ``fetch_share``: how long a download takes, as a share of a job's drawing, which is measured anew for each worker,
    because on a shared machine it changes.
    """
    files = adapter_files(2 * rounds * jobs)
    size_bytes, left = len(files[0]), iter(files)
    measured: dict[int, list[Measured]] = {groups: [], 0: []}
    valkey = EmbeddedServer.start(folder / "valkey")
    try:
        with running_slow_server() as server:
            stand = Stand(folder, valkey.url, server, steps)
            for _ in range(rounds):
                for ahead, found in measured.items():
                    with stand.worker(ahead):
                        server.bytes_per_s = round(size_bytes / (fetch_share * stand.drawing_ms() / 1000))
                        found.append(stand.measure(list(islice(left, jobs))))
    finally:
        valkey.stop()
    with_it, without = (summed(found) for found in measured.values())
    return {
        "idle_share": with_it["idle_share"],
        "idle_share_without": without["idle_share"],
        "draw_ratio": round(with_it["draw_ms"] / without["draw_ms"], 3),
        "adapter_bytes": size_bytes,
        "fetch_share": fetch_share,
        "with_prefetch": with_it,
        "without": without,
    }


def adapter_files(how_many: int) -> list[bytes]:
    """Random adapters for tiny-flux, for all its layers."""
    layers = served_bases(read_catalogue())[BASE].layers
    return [save(random_adapter(layers, ("",), RANK, seed)) for seed in range(how_many)]


class Stand:
    """A job server, a slow source, and the queue seen from outside."""

    def __init__(self, folder: Path, redis_url: str, server: SlowServer, steps: int) -> None:
        self._folder = folder
        self._server = server
        self._steps = steps
        self._decided = {
            "redis_url": redis_url,
            "data_folder": str(folder / "data"),
            "cache_folder": str(folder / "cache"),
            "adapter_allowed_networks": NETWORKS,
        }
        settings = Settings.model_validate(self._decided)
        client = connect_worker(settings)
        self._queue = Queue(client, settings)
        self._tickets = Tickets(settings)
        self._presence = Presence(client)
        self._meters = Meters(client)
        self._sources = Sources(settings)
        self._numbers = count(1)

    @contextmanager
    def worker(self, groups: int) -> Iterator[None]:
        """A worker that is loaded, and ends with the block."""
        environment = without_settings(os.environ) | {"OMP_NUM_THREADS": "1"}
        decided = self._decided | {"prefetch_groups": str(groups)}
        with (self._folder / f"worker-{groups}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "worker", "--base-model", BASE],
                env=for_python(with_decided(environment, decided)),
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            name = f"{BASE}-{process.pid}@"
            wait_for(
                "the worker", lambda: any(w.name.startswith(name) and w.state == "idle" for w in self._presence.alive())
            )
            yield
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)

    def drawing_ms(self) -> float:
        """What a job without adapters takes to be drawn here and now, median."""
        drawn = [drawn_of(job) for job in self._done([self._submit([]) for _ in range(CALIBRATING)])]
        return median(one.end_ms - one.begin_ms for one in drawn)

    def measure(self, files: list[bytes]) -> Measured:
        """All jobs at once, each with an adapter of its own."""
        pinned = [self._pinned(body) for body in files]
        before = self._meters.read(BASE)
        jobs = self._done([self._submit([adapter]) for adapter in pinned])
        after = wait_for("the worker's account", lambda: self._counted(before, len(files)))
        new = {name: value - before.get(name, 0) for name, value in after.items()}
        return Measured([drawn_of(job) for job in jobs], new)

    def _counted(self, before: dict[str, int], total: int) -> dict[str, int] | None:
        after = self._meters.read(BASE)
        return after if sum(after.get(name, 0) - before.get(name, 0) for name in HITS) == total else None

    def _pinned(self, body: bytes) -> PinnedAdapter:
        path = f"/{next(self._numbers)}.safetensors"
        self._server.files[path] = body
        identity = self._sources.open_source(self._server.url + path).identity
        return PinnedAdapter(
            source=path, scale=1.0, sha256=None, location=identity.location, revision=identity.revision
        )

    def _submit(self, adapters: list[PinnedAdapter]) -> str:
        spec = JobSpec(
            prompt="a red circle on a blue background",
            base_model=BASE,
            adapters=adapters,
            width=128,
            height=128,
            steps=self._steps,
            guidance_scale=1.0,
            seed=7,
            num_images=1,
            format="png",
        )
        return self._queue.submit(f"job{next(self._numbers):06}", spec)

    def _done(self, job_ids: list[str]) -> list[Job]:
        self._tickets.ring(BASE)

        def ended(job_id: str) -> Job | None:
            job = self._queue.get(job_id)
            return job if job.status.terminal else None

        return [wait_for(f"job {job_id}", lambda job_id=job_id: ended(job_id)) for job_id in job_ids]  # type: ignore[misc]


def wait_for(what: str, look: Callable[[], T | None]) -> T:
    """The first answer that is not None or False."""
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        if found := look():
            return found
        time.sleep(0.05)
    raise TimeoutError(f"waited {PATIENCE_S:.0f} s in vain for {what}")
