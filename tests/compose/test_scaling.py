"""More of the same, and two base models at once."""

from __future__ import annotations

import json
import sys
import uuid
from collections import Counter
from pathlib import Path

from cli.client import Client
from cli.demo.plan import CYCLE, swaps_in_order
from shared.catalogue import BUNDLED
from shared.job import Status
from tests.compose.stack import API_PORT, ROOT, URL, ComposeStack, ended, until

SECOND = "tiny-second"
JOBS = 120


def body(number: int, base_model: str = "tiny-flux") -> dict[str, object]:
    adapters = [{"source": name} for name in CYCLE[number % len(CYCLE)]] if base_model == "tiny-flux" else []
    return {
        "prompt": "a red circle on a blue background",
        "base_model": base_model,
        "adapters": adapters,
        "seed": number,
    }


def swaps(client: Client) -> int:
    return sum(queue.swaps for queue in client.queues().queues if queue.base_model == "tiny-flux")


def test_two_workers_and_two_apis_share_one_queue(stack: ComposeStack) -> None:
    scaled = ("--scale", "worker-tiny-flux=2", "--scale", "api=2")
    ports = f"{API_PORT}-{API_PORT + 1}"
    stack.up(*scaled, API_PORT=ports)
    try:
        with Client(URL) as one, Client(f"http://127.0.0.1:{API_PORT + 1}") as other:
            until("two workers", lambda: sum(worker.takes_jobs for worker in other.workers().workers) == 2)
            # All wait together, so that they can be ordered.
            stack.compose("stop", "worker-tiny-flux")
            before = swaps(one)
            # Each API takes every second job, and tells of the other's.
            jobs = [(one, other)[number % 2].submit(body(number), uuid.uuid4().hex).id for number in range(JOBS)]
            stack.up(*scaled, API_PORT=ports)
            seen = [ended((other, one)[number % 2], job) for number, job in enumerate(jobs)]
            made = swaps(other) - before
        assert {job.status for job in seen} == {Status.SUCCEEDED}
        share = Counter(job.worker for job in seen)
        groups = [frozenset(adapter.source for adapter in job.adapters) for job in seen]
        sys.stdout.write(f"{dict(share)}; adapter changes: {made}, in arrival order: {swaps_in_order(groups)}\n")
        assert len(share) == 2
        # How much is saved is the policy's to say: a change of tiny-flux's adapters costs next to nothing.
        assert made < swaps_in_order(groups)
    finally:
        stack.up("--scale", "worker-tiny-flux=1", "--scale", "api=1")


def test_two_base_models_at_once(stack: ComposeStack, tmp_path: Path) -> None:
    """The second one is the first one's weights under another name, read from a folder as any model is."""
    catalogue = tmp_path / "catalogue.toml"
    catalogue.write_text(BUNDLED.read_text() + second_entry())
    catalogue.chmod(0o644)
    file = tmp_path / "second.json"
    worker = {
        "extends": {"service": "worker-tiny-flux", "file": str(ROOT / "docker-compose.yml")},
        "command": ["python", "-m", "worker", "--base-model", SECOND],
    }
    file.write_text(json.dumps({"services": {f"worker-{SECOND}": worker}}))
    both = ComposeStack([*stack.files, file], {"CATALOGUE": str(catalogue)})
    try:
        both.up()
        with Client(URL) as client:
            until("both workers", lambda: len({worker.base_model for worker in client.workers().workers}) == 2)
            jobs = [
                client.submit(body(number, name), uuid.uuid4().hex).id
                for number in range(4)
                for name in ("tiny-flux", SECOND)
            ]
            seen = [ended(client, job) for job in jobs]
        assert {job.status for job in seen} == {Status.SUCCEEDED}
        assert {(job.base_model, (job.worker or "").partition("@")[0].rpartition("-")[0]) for job in seen} == {
            ("tiny-flux", "tiny-flux"), (SECOND, SECOND),
        }  # fmt: skip
    finally:
        both.compose("rm", "-s", "-f", f"worker-{SECOND}")
        stack.up()


def second_entry() -> str:
    """The bundled entry under another name and from the folder where the worker's image has these weights."""
    return f"""
[base_models.{SECOND}]
use = "tiny-flux"
source = "/opt/code/worker/playground/weights"
layout = "tiny-flux"
builtin_adapters = []
"""
