"""The way of one job through a worker: choose, claim, fetch, swap, draw, spool.

Upload, finish and notify go on in the background (``worker.upload``), so that the next job is drawn meanwhile.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from shared.catalogue import BaseModelEntry
from shared.errors import GenerationFailed, HotslotError, QueueUnavailable, WorkerError
from shared.groups import NO_ADAPTERS, adapters_of
from shared.job import Job, JobError, Receipt
from shared.meters import Meter, Tier
from shared.queue import Queue
from worker.busy import Busy
from worker.choose import Here, Limits, choose
from worker.engine_types import Drawing, DrawnImage, Engine, Prepared, SwapReport
from worker.lease import Interrupted, Lease, Why
from worker.next_job import NextJob
from worker.pace import Measured
from worker.persist import persist
from worker.prefetch import Prefetcher
from worker.spool import Spool, Spooled, SpooledImage
from worker.supply import Supply
from worker.tally import Tally
from worker.upload import Uploads
from worker.vocabulary import strange_words

log = logging.getLogger(__name__)

CLAIM_TRIES = 5
PREPARE_BUDGET_S = 120.0
STEP_BUDGET_S = 120.0
SETTLE_BUDGET_S = 60.0
HITS: dict[Tier, Meter] = {
    "slot": "hits_slot",
    "memory": "hits_memory",
    "disk": "hits_disk",
    "remote": "hits_remote",
}
T = TypeVar("T")


@dataclass
class Desk:
    """All that a worker has at hand, and what it remembers from job to job."""

    name: str
    holder: str
    """This very process: what a dead child held is told from what its successor holds."""
    entry: BaseModelEntry
    queue: Queue
    engine: Engine
    spool: Spool
    uploads: Uploads
    limits: Limits
    lease_ms: int
    supply: Supply
    prefetcher: Prefetcher
    next_job: NextJob
    tally: Tally
    stop_at_s: Callable[[], float]
    busy: Busy
    resident: str = NO_ADAPTERS
    resident_sources: tuple[str, ...] = ()
    """The adapters in the slot as they were asked for, for people."""
    streak: int = 0
    measured: Measured = field(default_factory=Measured)
    swaps: int = 0
    jobs: int = 0
    faults: int = 0
    """Jobs in a row that failed through no fault of their own."""


def serve_one(desk: Desk, on_claim: Callable[[Job], None]) -> Job | None:
    """Serve the job that costs the fewest swaps within the bound; None when nothing waits."""
    job = take(desk)
    if job is None:
        return None
    on_claim(job)
    error: HotslotError | None = None
    why: Why | None = None
    with Lease(desk.queue, job.id, job.attempt, desk.lease_ms, desk.stop_at_s) as lease:
        try:
            lease.stage(PREPARE_BUDGET_S)
            stays, is_warm = job.group == desk.resident, adapters_of(job.group) <= desk.supply.warm()
            started_s = time.monotonic()
            prepared = prepare(desk, job, lease)
            fetched_s = time.monotonic()
            report = swap(desk, job, prepared)
            swapped_s = time.monotonic()
            with looking_ahead(desk):
                drawn = draw(desk, job, lease)
            if not stays:
                desk.measured.swapped("warm" if is_warm else "cold", (swapped_s - started_s) * 1000)
            desk.measured.served((time.monotonic() - swapped_s) * 1000)
            timings_ms = {
                "queued": float((job.claimed_ms or job.created_ms) - job.created_ms),
                "fetch": (fetched_s - started_s) * 1000,
                "swap": (swapped_s - fetched_s) * 1000,
            }
            desk.uploads.add(spool(desk, job, report, drawn, timings_ms))
        except Interrupted as interrupted:
            why = interrupted.why
        except HotslotError as failure:
            error = failure
        except Exception as failure:
            log.exception("job %s attempt %d failed", job.id, job.attempt)
            error = GenerationFailed(f"The pipeline failed on this job ({type(failure).__name__}); try it again.")
    if why is not None:
        leave(desk, job, why)
    elif error is not None:
        fail(desk, job, error)
    desk.faults = desk.faults + 1 if isinstance(error, WorkerError) else 0
    desk.jobs += 1
    return job


def take(desk: Desk) -> Job | None:
    """Choose and claim. Tries again when another worker was faster."""
    limits, token = desk.limits, secrets.token_hex(16)
    for _ in range(CLAIM_TRIES):
        groups = desk.queue.look(desk.entry.name, desk.resident, desk.name)
        here = Here(desk.resident, desk.streak, desk.supply.warm())
        choice = choose(groups, here, desk.measured.pace, limits)
        desk.busy.waits(choice is not None)
        if choice is None:
            return None
        claim = partial(desk.queue.claim, desk.entry.name, choice.group, desk.name, holder=desk.holder, token=token)
        # Patiently, because a try whose answer was lost has claimed a job, which only its token gives back.
        claimed = settle(desk, claim)
        if isinstance(claimed, Job):
            desk.busy.waits(sum(group.waiting for group in groups) > 1)
            log.info("job %s attempt %d claimed (%s)", claimed.id, claimed.attempt, choice.reason)
            return claimed
        if claimed == "bound":
            limits = replace(limits, overtake_max=0)
    return None


def prepare(desk: Desk, job: Job, lease: Lease) -> Prepared:
    """Bring the job's adapters into memory; counts where they were."""

    def on_progress() -> None:
        lease.stage(PREPARE_BUDGET_S)
        if desk.stop_at_s():
            # What is fetched so far stays for whoever goes on.
            raise Interrupted("handed_back")

    tiers = tiers_of(desk, job)
    cold = [adapter for adapter, tier in zip(job.spec.adapters, tiers, strict=True) if tier == "remote"]
    with desk.prefetcher.aside_for(cold):
        prepared = desk.supply.prepare(job.spec.adapters, on_progress)
    for tier in tiers:
        desk.tally.add(HITS[tier])
    return prepared


def tiers_of(desk: Desk, job: Job) -> list[Tier]:
    """Where each of the job's adapters is now."""
    if job.group == desk.resident:
        return ["slot" for _ in job.spec.adapters]
    return [desk.supply.tier_of(adapter) for adapter in job.spec.adapters]


def swap(desk: Desk, job: Job, prepared: object) -> SwapReport:
    """Put the job's adapters into the slot; a change of the adapter set counts as a swap."""
    started_s = time.monotonic()
    try:
        report = desk.engine.swap(prepared)
    except Exception:
        # Whatever the slot holds now, no waiting group may count on it.
        desk.resident, desk.resident_sources = "unknown", ()
        raise
    if report.changed:
        desk.tally.took("swap", time.monotonic() - started_s)
    desk.resident_sources = tuple(one.source for one in report.applied)
    desk.streak = desk.streak + 1 if job.group == desk.resident else 1
    if job.group != desk.resident:
        desk.resident = job.group
        desk.swaps += 1
        with suppress(QueueUnavailable):
            desk.queue.count_swap(desk.entry.name)
    return report


@contextmanager
def looking_ahead(desk: Desk) -> Iterator[None]:
    """Meanwhile the next job is marked and made ready, and the adapters of those after it are brought."""
    here, pace = Here(desk.resident, desk.streak), desk.measured.pace
    desk.prefetcher.look_ahead(here, pace)
    desk.next_job.look_ahead(here, pace)
    try:
        yield
    finally:
        desk.next_job.rest()


def draw(desk: Desk, job: Job, lease: Lease) -> list[DrawnImage]:
    """Draw every image of the job; image i with seed + i. Raises Interrupted within a step of a cancel."""
    spec = job.spec
    total = spec.steps * spec.num_images
    drawn = []
    for number in range(spec.num_images):
        before = number * spec.steps
        lease.stage(STEP_BUDGET_S)
        drawing = Drawing(
            prompt=spec.prompt,
            negative_prompt=spec.negative_prompt,
            width=spec.width,
            height=spec.height,
            steps=spec.steps,
            guidance_scale=spec.guidance_scale,
            seed=spec.seed + number,
        )

        def on_step(done: int, _steps: int, before: int = before) -> None:
            lease.step(before + done, total, STEP_BUDGET_S)

        with desk.busy.denoising():
            drawn.append(desk.engine.decode(desk.engine.denoise(drawing, on_step)))
    return drawn


def spool(desk: Desk, job: Job, report: SwapReport, drawn: list[DrawnImage], timings_ms: dict[str, float]) -> Spooled:
    """Write the images to disk with all that the receipt says of them."""
    for image in drawn:
        for stage, value_ms in image.timings_ms.items():
            timings_ms[stage] = timings_ms.get(stage, 0.0) + value_ms
    warnings = [*job.warnings, *strange_words(desk.entry, job.spec)]
    warnings += [text for image in drawn for text in image.warnings]
    spooled = Spooled(
        job_id=job.id,
        attempt=job.attempt,
        format=job.spec.format,
        images=[
            SpooledImage(file=f"{n}.rgb", width=job.spec.width, height=job.spec.height, seed=image.seed)
            for n, image in enumerate(drawn)
        ],
        receipt=receipt(desk, job, report),
        timings_ms=timings_ms,
        warnings=list(dict.fromkeys(warnings)),
        spooled_at_s=time.time(),
    )
    desk.spool.put(spooled, [image.pixels.tobytes() for image in drawn])
    return spooled


def receipt(desk: Desk, job: Job, report: SwapReport) -> Receipt:
    """What made the images, as read back from the slot; the images' hashes follow when they are encoded."""
    return Receipt(
        job=job.id,
        adapters=list(report.applied),
        base_model=desk.entry.name,
        base_revision=desk.engine.base_revision,
        recipe=desk.engine.recipe,
        fingerprint=report.fingerprint,
        library_versions=dict(desk.engine.library_versions),
        worker=desk.name,
        attempt=job.attempt,
        images_sha256=[],
    )


def leave(desk: Desk, job: Job, why: Why) -> None:
    """End or hand back a job that must not go on here."""
    log.info("job %s attempt %d left at a step (%s)", job.id, job.attempt, why)
    if why == "handed_back":
        settle(desk, partial(desk.queue.give_back, job.id, job.attempt))
    elif why != "lost":
        settle(desk, partial(desk.queue.stop, job.id, job.attempt, why))


def fail(desk: Desk, job: Job, error: HotslotError) -> None:
    """End a job with the error's code and sentence."""
    log.info("job %s attempt %d failed: %s", job.id, job.attempt, error.code)
    settle(desk, partial(desk.queue.fail, job.id, job.attempt, JobError.of(error), job.warnings))


def settle(desk: Desk, call: Callable[[], T]) -> T:
    """A call that changes a job's state, tried patiently unless this process must end.

    If the server stays away the lease runs out, and the job is run again.
    """
    return persist(call, time.monotonic() + SETTLE_BUDGET_S, lambda: 0 < desk.stop_at_s() < time.monotonic())
