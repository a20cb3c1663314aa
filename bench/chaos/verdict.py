"""Which promises broke: a count of each, and a sentence about each case. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench.chaos.evidence import Evidence, JobEvidence
from bench.chaos.keyspace import leaked
from bench.chaos.receiver import Call
from shared.errors import ReceiptRefused
from shared.job import Status
from shared.receipt import check_signature

BORNE = frozenset({"worker_lost"})
"""Codes of failures that faults alone explain: too many workers died with the job."""


@dataclass(frozen=True)
class Broken:
    """One broken promise; ``kind`` is the count that it goes into."""

    kind: str
    sentence: str


KINDS = (
    "lost",
    "double_terminal",
    "wrong_images",
    "duplicate_events",
    "missing_events",
    "orphans",
    "leaked_keys",
    "leases",
    "unasked_jobs",
    "wrong_ends",
)
"""lost: accepted, but not terminal or not known any more. double_terminal: ended twice, or was seen to change after
its end. wrong_images: not there, not those of the receipt, or not what was asked for. duplicate_events: told under
several ids, of several ends or in several words. missing_events: no call that the receiver took. orphans: objects that
no job names. leaked_keys: see ``keyspace``. leases: held by nobody. unasked_jobs: records beyond those accepted.
wrong_ends: an end that nothing explains, as a failure of another kind, or success after an acknowledged cancel."""


def judge(evidence: Evidence) -> list[Broken]:
    """Every broken promise."""
    calls: dict[str, list[Call]] = defaultdict(list)
    for call in evidence.calls:
        calls[call.job_id].append(call)
    found = [one for job in evidence.jobs for one in _job_faults(job, evidence, calls[job.followed.id])]
    found += _picture_faults(evidence.jobs)
    named = {
        image.key for job in evidence.jobs if job.record and job.record.result for image in job.record.result.images
    }
    found += [Broken("orphans", f"no job names the object {key}") for key in sorted(evidence.objects - named)]
    found += [Broken("leaked_keys", f"the key {name!r} stays for ever") for name in leaked(evidence.keys_left)]
    found += [Broken("leases", "a lease is held")] * evidence.leases
    found += [Broken("missing_events", "an event still waits")] * evidence.events_waiting
    strangers = max(0, evidence.jobs_known - len(evidence.jobs))
    found += [Broken("unasked_jobs", "a job that nobody was told of")] * strangers
    found += [Broken("duplicate_events", "a call with a wrong signature")] * len(calls[""])
    return found


def counts(broken: Sequence[Broken]) -> dict[str, int]:
    """How many of each kind, zeros too."""
    found = Counter(one.kind for one in broken)
    return {kind: found[kind] for kind in KINDS}


def _job_faults(job: JobEvidence, evidence: Evidence, calls: Sequence[Call]) -> Iterator[Broken]:
    def broken(kind: str, what: str) -> Broken:
        return Broken(kind, f"job {job.followed.id} (number {job.followed.asked.number}): {what}")

    if job.record is None or job.view is None or not job.record.status.terminal:
        yield broken("lost", job.record.status.value if job.record else "not known any more")
        return
    end = job.record.status
    seen = {status.value for status in job.followed.ends} | set(job.ends) | {job.view.status.value}
    if seen != {end.value} or len(job.ends) != 1:
        yield broken("double_terminal", f"{end.value}, events {list(job.ends)}, seen {sorted(seen)}")
    if end is Status.SUCCEEDED:
        for what in _image_faults(job, evidence):
            yield broken("wrong_images", what)
    if wrong := _wrong_end(job):
        yield broken("wrong_ends", wrong)
    if len({(call.event_id, call.type, call.body_sha256) for call in calls}) > 1:
        yield broken("duplicate_events", f"told as {sorted({(call.event_id, call.type) for call in calls})}")
    if not any(call.taken and call.type == f"job.{end.value}" for call in calls):
        yield broken("missing_events", f"{len(calls)} calls, none of {end.value} was taken")


def _wrong_end(job: JobEvidence) -> str | None:
    if job.record is None:
        return None
    end, error, asked = job.record.status, job.record.error, job.followed.asked
    if end is Status.FAILED and (error is None or error.code not in BORNE):
        return f"failed: {error.code if error else 'for no reason'}"
    if end is Status.CANCELLED and asked.cancel_after_s is None:
        return "cancelled, though nobody asked for that"
    if end is Status.EXPIRED and "deadline_seconds" not in asked.body:
        return "expired without a deadline"
    # A deadline that comes first also stops it.
    if job.followed.cancelled and end not in (Status.CANCELLED, Status.EXPIRED):
        return f"{end.value} after an acknowledged cancel"
    return None


def _image_faults(job: JobEvidence, evidence: Evidence) -> Iterator[str]:
    view, record = job.view, job.record
    if view is None or record is None or view.receipt is None or record.result is None:
        yield "succeeded without a receipt"
        return
    receipt, asked = view.receipt, job.followed.asked
    recorded = tuple(image.sha256 for image in record.result.images)
    if len(recorded) != 1:
        yield f"{len(recorded)} images instead of one"
    for name, hashes in (
        ("the bucket's", job.stored_sha256),
        ("the receipt's", tuple(receipt.images_sha256)),
        ("the API's", tuple(image.sha256 for image in view.images)),
    ):
        if hashes != recorded:
            yield f"{name} images are not the record's"
    try:
        check_signature(receipt.model_dump(mode="json"), evidence.receipt_keys)
    except ReceiptRefused as error:
        yield error.message
    if (receipt.job, receipt.attempt) != (record.id, record.attempt):
        yield f"the receipt is of attempt {receipt.attempt} of {receipt.job}, the record of attempt {record.attempt}"
    applied = sorted((one.source, one.scale, one.sha256) for one in receipt.adapters)
    if applied != sorted((one.source, one.scale, one.sha256 or "") for one in record.spec.adapters):
        yield "the receipt's adapters are not those of the record"
    if sorted((source, scale) for source, scale, _ in applied) != sorted(asked.adapters):
        yield "the receipt's adapters are not those asked for"


def pictures(jobs: Sequence[JobEvidence]) -> dict[Any, Counter[str]]:
    """Hashes of the images of each kind of request."""
    found: dict[Any, Counter[str]] = defaultdict(Counter)
    for job in jobs:
        if job.stored_sha256 and job.stored_sha256[0]:
            found[job.followed.asked.picture][job.stored_sha256[0]] += 1
    return found


def _picture_faults(jobs: Sequence[JobEvidence]) -> Iterator[Broken]:
    for request, hashes in pictures(jobs).items():
        (_, usual), *others = hashes.most_common()
        del usual
        for sha256, count in others:
            yield from [
                Broken("wrong_images", f"{request} gave {sha256[:12]} too, {count} of {hashes.total()}")
            ] * count
