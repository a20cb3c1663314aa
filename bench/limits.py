"""``python -m bench.limits``: what one Redis or Valkey and one API process carry, and what a job weighs there.

Work is counted in seconds of processor time, which other programs on the machine change little. Prints JSON: ``server``
holds, per job, the processor time of the server's main thread from submit to success and in each phase, and the
memory of a waiting and of an ended job; ``api`` the processor time of the API per submitted job, and per look at one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cli.client import Client
from cli.stack import free_port
from shared.embedded import EmbeddedServer
from shared.errors import Unavailable
from shared.ids import new_job_id
from shared.job import ImageRecord, Job, JobSpec, PinnedAdapter, Receipt, Result
from shared.queue import Queue
from shared.server import connect_worker
from shared.settings import Settings

BASE_MODEL = "tiny-flux"
GROUPS = 100
STEPS = 28
"""Denoising steps of a job, each of which is reported."""
CLIENTS = 8
PROMPT = "a large red circle on a blue background, " * 8
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def spec_of(number: int) -> JobSpec:
    """A job with one of ``GROUPS`` adapters."""
    name = f"adapter-{number % GROUPS}"
    adapter = PinnedAdapter(source=name, scale=1.0, sha256=name.encode().hex().ljust(64, "0"), location=f"file:{name}")
    return JobSpec(
        prompt=PROMPT, base_model=BASE_MODEL, adapters=[adapter], width=1024, height=1024, steps=STEPS,
        guidance_scale=3.5, seed=number, num_images=1, format="png",
    )  # fmt: skip


def result_of(job: Job) -> Result:
    """What a worker writes at a job's end."""
    key = f"jobs/{job.id}/{job.attempt}/0.png"
    image = ImageRecord(key=key, sha256="0" * 64, width=1024, height=1024, content_type="image/png", seed=7)
    receipt = Receipt(
        adapters=[], base_model=BASE_MODEL, base_revision="0" * 40, recipe="eager", fingerprint="0" * 64,
        library_versions={"torch": "2.13.0", "diffusers": "0.42.1"}, worker="w1", attempt=job.attempt,
        images_sha256=["0" * 64],
    )  # fmt: skip
    return Result(images=[image], receipt=receipt, timings_ms={"denoise": 1000.0, "swap": 1.0})


class Meter:
    """The server's own account of its work and its memory."""

    def __init__(self, settings: Settings) -> None:
        self._client = connect_worker(settings)

    def cpu_s(self) -> float:
        """Processor time of the main thread, which runs all scripts."""
        cpu: dict[str, Any] = self._client.info("cpu")
        return float(cpu["used_cpu_user_main_thread"]) + float(cpu["used_cpu_sys_main_thread"])

    def memory_bytes(self) -> int:
        """Memory in use."""
        return int(self._client.info("memory")["used_memory"])

    def cost(self, work: Callable[[], None], jobs: int) -> float:
        """Microseconds of the server per job that ``work`` costs."""
        before_s = self.cpu_s()
        work()
        return round((self.cpu_s() - before_s) / jobs * 1e6, 1)


def measure_server(settings: Settings, jobs: int) -> dict[str, float]:
    """Submit ``jobs``, then run them all with one worker's calls."""
    queue, meter = Queue(connect_worker(settings), settings), Meter(settings)
    empty_bytes = meter.memory_bytes()
    running: list[Job] = []

    def submit() -> None:
        for number in range(jobs):
            queue.submit(new_job_id(), spec_of(number))

    def claim() -> None:
        while waiting := queue.look(BASE_MODEL):
            claimed = queue.claim(BASE_MODEL, waiting[0].key, "w1")
            if isinstance(claimed, Job):
                running.append(claimed)

    def draw() -> None:
        for job in running:
            for step in range(STEPS):
                queue.progress(job.id, job.attempt, step + 1, STEPS)

    def finish() -> None:
        for job in running:
            result = result_of(job)
            queue.place(job.id, job.attempt, [image.key for image in result.images])
            queue.succeed(job.id, job.attempt, result, [])

    found = {"submit_us": meter.cost(submit, jobs)}
    waiting_bytes = meter.memory_bytes() - empty_bytes
    found |= {f"{work.__name__}_us": meter.cost(work, jobs) for work in (claim, draw, finish)}
    ended_bytes = meter.memory_bytes() - empty_bytes
    whole_us = sum(found.values())
    return found | {
        "whole_job_us": round(whole_us, 1),
        "jobs_per_s_of_one_core": round(1e6 / whole_us),
        "bytes_per_waiting_job": round(waiting_bytes / jobs),
        "bytes_per_ended_job": round(ended_bytes / jobs),
    }


def measure_api(settings: Settings, folder: Path, jobs: int) -> dict[str, float]:
    """Submit ``jobs`` over HTTP from several threads, then look at each."""
    with running_api(settings, folder) as (client, cpu_s), ThreadPoolExecutor(CLIENTS) as clients:
        body = {"prompt": PROMPT, "base_model": BASE_MODEL, "seed": 7}
        before_s = cpu_s()
        ids = list(clients.map(lambda _: client.submit(body, uuid.uuid4().hex).id, range(jobs)))
        submitted_s = cpu_s()
        list(clients.map(client.job, ids))
        looked_s = cpu_s()
    submit_s, look_s = (submitted_s - before_s) / jobs, (looked_s - submitted_s) / jobs
    return {
        "submit_ms": round(submit_s * 1e3, 2),
        "look_ms": round(look_s * 1e3, 2),
        "submits_per_s_of_one_core": round(1 / submit_s),
        "looks_per_s_of_one_core": round(1 / look_s),
    }


@contextmanager
def running_api(settings: Settings, folder: Path) -> Iterator[tuple[Client, Callable[[], float]]]:
    """An API process, a client of it, and its processor time so far in seconds."""
    port = free_port()
    environment = {
        **os.environ,
        "HOTSLOT_REDIS_URL": settings.redis_url.get_secret_value(),
        "HOTSLOT_DATA_FOLDER": str(folder),
    }
    with (
        (folder / "api.log").open("w") as log,
        subprocess.Popen(
            [sys.executable, "-m", "api", "--port", str(port)], env=environment, stdout=log, stderr=log
        ) as process,
        Client(f"http://127.0.0.1:{port}") as client,
    ):
        try:
            while True:
                try:
                    client.workers()
                    break
                except Unavailable:
                    if process.poll() is not None:
                        raise
                    time.sleep(0.1)
            yield client, lambda: cpu_of(process.pid)
        finally:
            process.terminate()


def cpu_of(pid: int) -> float:
    """Processor time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bench.limits", description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=2000)
    options = parser.parse_args()
    with TemporaryDirectory(prefix="hotslot-bench-") as name:
        folder = Path(name)
        with EmbeddedServer.start(folder / "valkey") as server:
            settings = Settings.model_validate({"redis_url": server.url})
            found: dict[str, Any] = {"jobs": options.jobs, "groups": GROUPS, "steps": STEPS}
            found["server"] = measure_server(settings, options.jobs)
            found["api"] = measure_api(settings, folder, options.jobs)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
