"""One real worker after the other on a full queue in which adapters take turns, and what they say of themselves."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from bench.busy.account import Round, summed
from bench.prefetch.run import BASE, adapter_files, wait_for
from cli.environment import for_python, with_decided, without_settings
from shared.embedded import EmbeddedServer
from shared.job import Job, JobSpec, PinnedAdapter
from shared.presence import Presence, WorkerInfo
from shared.queue import Queue
from shared.server import connect_worker
from shared.settings import Settings
from shared.tickets import Tickets


@dataclass(frozen=True)
class Load:
    """What each worker gets: so many jobs at once, with adapters in turn. ``put_ms``: time of one upload."""

    jobs: int
    adapters: int
    steps: int
    size: int
    put_ms: int


def run(load: Load, rounds: int, folder: Path) -> dict[str, Any]:
    """Both kinds in turn, so that a machine whose load changes treats them alike."""
    found: dict[bool, list[Round]] = {False: [], True: []}
    valkey = EmbeddedServer.start(folder / "valkey")
    try:
        stand = Stand(folder, valkey.url, load)
        for _ in range(rounds):
            for one_after_the_other, measured in found.items():
                with stand.worker(one_after_the_other) as name:
                    measured.append(stand.measure(name))
    finally:
        valkey.stop()
    ours, other = summed(found[False]), summed(found[True])
    return {
        "busy_ratio": ours["busy_ratio"],
        "busy_ratio_one_after_the_other": other["busy_ratio"],
        "speedup": round(ours["jobs_per_s"] / other["jobs_per_s"], 3),
        "put_ms": load.put_ms,
        "adapters": load.adapters,
        "steps": load.steps,
        "size": load.size,
        "ours": ours,
        "one_after_the_other": other,
    }


class Stand:
    """A job server, a folder of adapters, and the queue seen from outside."""

    def __init__(self, folder: Path, redis_url: str, load: Load) -> None:
        self._folder = folder
        self._load = load
        adapters = folder / "adapters"
        adapters.mkdir()
        self._decided = {
            "redis_url": redis_url,
            "data_folder": str(folder / "data"),
            "cache_folder": str(folder / "cache"),
            "adapter_folder": str(adapters),
        }
        settings = Settings.model_validate(self._decided)
        client = connect_worker(settings)
        self._queue = Queue(client, settings)
        self._tickets = Tickets(settings)
        self._presence = Presence(client)
        self._numbers = count(1)
        self._adapters = [_written(adapters, body) for body in adapter_files(load.adapters)]

    @contextmanager
    def worker(self, one_after_the_other: bool) -> Iterator[str]:
        """Name of a worker that is loaded, and ends with the block."""
        environment = without_settings(os.environ) | {"OMP_NUM_THREADS": "1"}
        kind = ["--one-after-the-other"] if one_after_the_other else []
        ahead = {"prefetch_groups": "0"} if one_after_the_other else {}
        with (self._folder / "worker.log").open("ab") as log:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "bench.busy.worker", "--base-model", BASE),
                    *("--put-ms", str(self._load.put_ms), *kind),
                ],
                env=for_python(with_decided(environment, self._decided | ahead)),
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            yield wait_for("the worker", lambda: self._idle(f"{BASE}-{process.pid}@")).name
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)

    def measure(self, worker: str) -> Round:
        """Submit all jobs at once; one more before them, so that nothing is done for the first time."""
        self._done([self._submit(0)])
        jobs = self._done([self._submit(number) for number in range(self._load.jobs)])
        said = wait_for("the worker's account", lambda: self._idle(worker, jobs=1 + len(jobs)))
        if said.busy_ratio is None:
            raise ValueError(f"the worker says of no time that jobs waited in it: {said}")
        return Round(jobs, said.busy_ratio)

    def _idle(self, name: str, jobs: int = 0) -> WorkerInfo | None:
        for worker in self._presence.alive():
            if worker.name.startswith(name) and worker.state == "idle" and worker.jobs >= jobs:
                return worker
        return None

    def _submit(self, number: int) -> str:
        load = self._load
        spec = JobSpec(
            prompt=f"a red circle on a blue background, number {number}",
            base_model=BASE,
            adapters=[self._adapters[number % load.adapters]],
            width=load.size,
            height=load.size,
            steps=load.steps,
            guidance_scale=1.0,
            seed=number,
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


def _written(folder: Path, body: bytes) -> PinnedAdapter:
    sha256 = hashlib.sha256(body).hexdigest()
    (folder / f"{sha256}.safetensors").write_bytes(body)
    return PinnedAdapter(
        source=f"file:{sha256}.safetensors", scale=1.0, sha256=sha256, location=f"file:{sha256}.safetensors"
    )
