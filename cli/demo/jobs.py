"""Runs the demo's jobs against a stack that takes jobs: submit from two threads, cancel one, wait, download."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from cli.client import Client
from cli.demo.outcome import Cancelling, Ended, Outcome
from cli.demo.plan import BASE_MODEL, CLIENTS, Planned, make_plan
from cli.demo.receiver import Receiver
from cli.progress import steps_of
from shared.errors import HotslotError, Unavailable
from shared.job import Status
from shared.view import JobView

ROUND_S = 2
"""How long to wait for a job before the stack is looked at again."""
WEBHOOK_S = 30.0
SUBMIT_TRIES = 20

Check = Callable[[], object]
"""Raises when the stack cannot go on."""


@dataclass
class Canceller:
    """Cancels a job as soon as its first denoising step is done, in a thread of its own."""

    client: Client
    seen: Cancelling = field(default_factory=Cancelling)
    _thread: Thread | None = None

    def begin(self, job_id: str) -> None:
        """Watch this job."""
        self._thread = Thread(target=self._run, args=(job_id,), name="canceller", daemon=True)
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait until it has done its work."""
        if self._thread:
            self._thread.join(timeout_s)

    def _run(self, job_id: str) -> None:
        # What goes wrong here shows in the job, which then does not end as cancelled.
        try:
            for event in self.client.events(job_id, ""):
                step, steps = steps_of(event)
                if step:
                    self.seen = Cancelling(step, steps, self.client.cancel(job_id).status.value)
                    return
        except HotslotError as error:
            self.seen = Cancelling(status=error.code)


def run_jobs(
    client: Client, receiver: Receiver | None, folder: Path, check: Check, on_end: Callable[[], None]
) -> Outcome:
    """Run the whole plan; images go into ``folder``. ``on_end`` is called at the end of each job.

    Without a receiver no job asks for a webhook.
    """
    planned = make_plan(receiver.url if receiver else None)
    swaps_before = swaps_of(client)
    canceller = Canceller(client)
    jobs = submit_all(client, planned, canceller)
    ended = []
    for one, job in zip(planned, jobs, strict=True):
        ended.append(await_end(client, one, job.id, check))
        on_end()
    canceller.join(ROUND_S)
    ended = [Ended(one.planned, one.job, fetch(client, one, folder)) for one in ended]
    expected = sum(one.webhook_url is not None for one in planned)
    calls = receiver.wait(expected, WEBHOOK_S) if receiver else []
    return Outcome(ended, calls, canceller.seen, swaps_of(client) - swaps_before, client.receipt_keys().by_id)


def swaps_of(client: Client) -> int:
    """How often workers have changed adapters so far."""
    return next(queue.swaps for queue in client.queues().queues if queue.base_model == BASE_MODEL)


def submit_all(client: Client, planned: Sequence[Planned], canceller: Canceller) -> list[JobView]:
    """Submit every job, two at a time; jobs in the plan's order."""

    def one(plan: Planned) -> JobView:
        job = submit(client, plan)
        if plan.cancel:
            canceller.begin(job.id)
        return job

    with ThreadPoolExecutor(CLIENTS, thread_name_prefix="client") as clients:
        return list(clients.map(one, planned))


def submit(client: Client, plan: Planned) -> JobView:
    """Submit one job; what may pass is tried again under the same key."""
    key = uuid.uuid4().hex
    for _ in range(SUBMIT_TRIES - 1):
        try:
            return client.submit(plan.body(), key)
        except Unavailable:
            time.sleep(0.5)
    return client.submit(plan.body(), key)


def await_end(client: Client, plan: Planned, job_id: str, check: Check) -> Ended:
    """Wait until the job has ended, for as long as the stack can go on."""
    while True:
        check()
        try:
            job = client.job(job_id, wait_s=ROUND_S)
        except Unavailable:
            time.sleep(0.5)
            continue
        if job.status.terminal:
            return Ended(plan, job)


def fetch(client: Client, one: Ended, folder: Path) -> Path | None:
    """Download the job's image, checked against its hash; None when it has none."""
    if one.job.status is not Status.SUCCEEDED or not one.job.images:
        return None
    path = folder / one.planned.file_name
    path.write_bytes(client.image(one.job.images[0]))
    return path
