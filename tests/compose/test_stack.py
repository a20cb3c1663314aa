"""The stack as a user has it: healthy, drawing, and none the worse for kills, restarts and a night off."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from cli.client import Client
from cli.demo.plan import CYCLE, LONG
from shared.job import Status
from shared.view import JobView
from tests.compose.stack import LONGEST_S, ROOT, STORE_PORT, URL, ComposeStack, docker, ended, until

OWN = ("api", "notifier", "worker-tiny-flux")
ADAPTERS = [names[0] for names in CYCLE if names]


def submit(client: Client, seed: int, **more: Any) -> str:
    adapter = ADAPTERS[seed % len(ADAPTERS)]
    body = {"prompt": "a red circle on a blue background", "base_model": "tiny-flux", "seed": seed} | more
    return client.submit({"adapters": [{"source": adapter}]} | body, uuid.uuid4().hex).id


def check_image(client: Client, job: JobView) -> str:
    """The hash of the job's image as it is downloaded from here."""
    assert job.status is Status.SUCCEEDED, job.error
    return hashlib.sha256(client.image(job.images[0])).hexdigest()


def test_it_is_healthy_and_nobody_of_ours_is_root(stack: ComposeStack) -> None:
    for service in (*OWN, "redis", "store"):
        (container,) = stack.containers(service)
        assert container["State"]["Health"]["Status"] == "healthy", service
    for service in OWN:
        assert stack.compose("exec", "-T", service, "id", "-u").strip() == "10001"
        assert stack.containers(service)[0]["HostConfig"]["ReadonlyRootfs"] is True


def test_images_are_fetched_from_the_store_by_links_that_work_here(stack: ComposeStack, client: Client) -> None:
    job = ended(client, submit(client, 1))
    answer = httpx2.get(job.images[0].url, trust_env=False)
    assert answer.status_code in (302, 307)
    assert urlsplit(answer.headers["location"]).netloc == f"127.0.0.1:{STORE_PORT}"
    assert check_image(client, job) == job.images[0].sha256


def test_the_demo_passes(stack: ComposeStack, tmp_path: Path) -> None:
    secret = tmp_path / "webhook-secret"
    secret.write_text(stack.compose("exec", "-T", "api", "cat", "/secrets/webhook-secret"))
    command = [sys.executable, "-m", "cli.main", "demo", "--url", URL, "--out", str(tmp_path / "out")]
    done = subprocess.run(
        [*command, "--webhook-host", "host.docker.internal"],
        cwd=ROOT,
        env=os.environ | {"HOTSLOT_WEBHOOK_SECRET_FILE": str(secret)},
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "webhook verified" in done.stdout
    assert "not checked" not in done.stdout


def submit_long_and_short(client: Client, seed: int) -> list[str]:
    """Jobs that take a while together, even on an idle machine; the first of them is being drawn."""
    jobs = [submit(client, seed + number, **LONG) for number in range(3)]
    jobs += [submit(client, seed + 10 + number) for number in range(5)]
    until("a first step", lambda: any(client.job(job).progress.step for job in jobs[:3]))
    return jobs


def test_a_killed_worker_loses_nothing(stack: ComposeStack, client: Client) -> None:
    worker = stack.container("worker-tiny-flux")
    ids = submit_long_and_short(client, 100)
    docker("kill", worker)
    assert not all(client.job(job).status.terminal for job in ids)
    # The engine does not restart by itself what a person has killed.
    stack.up()
    jobs = [ended(client, job) for job in ids]
    assert {job.status for job in jobs} == {Status.SUCCEEDED}
    assert sorted(job.attempt for job in jobs) == [1] * (len(jobs) - 1) + [2]
    assert [check_image(client, job) for job in jobs] == [job.images[0].sha256 for job in jobs]


def test_a_restart_of_redis_loses_nothing(stack: ComposeStack, client: Client) -> None:
    redis = stack.container("redis")
    ids = submit_long_and_short(client, 200)
    docker("restart", redis)
    jobs = [ended(client, job) for job in ids]
    assert {job.status for job in jobs} == {Status.SUCCEEDED}
    assert [check_image(client, job) for job in jobs] == [job.images[0].sha256 for job in jobs]


def test_jobs_and_images_outlive_down_and_up(stack: ComposeStack, client: Client) -> None:
    done = [ended(client, submit(client, 300 + number)) for number in range(3)]
    stack.compose("stop", "worker-tiny-flux")
    waiting = submit(client, 310)
    stack.compose("down")
    stack.up()
    for job in done:
        assert client.job(job.id).model_dump() == job.model_dump()
        assert check_image(client, job) == job.images[0].sha256
    assert ended(client, waiting).status is Status.SUCCEEDED


@pytest.mark.parametrize("profile", [[], ["--profile", "gpu"]], ids=["default", "gpu"])
def test_the_file_is_clean(images: ComposeStack, profile: list[str]) -> None:
    done = subprocess.run(
        ["docker", "compose", *profile, "config", "-q"], cwd=ROOT, capture_output=True, text=True, timeout=LONGEST_S
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
