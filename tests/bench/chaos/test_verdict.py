"""The judge of a chaos run: it finds nothing in a sound run, and each broken promise in one that is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from bench.chaos.evidence import Evidence, JobEvidence
from bench.chaos.receiver import Call
from bench.chaos.requests import Asked
from bench.chaos.traffic import Followed
from bench.chaos.verdict import counts, judge
from shared import keys
from shared.job import AppliedAdapterRecord, ImageRecord, Job, JobError, PinnedAdapter, Receipt, Result, Status
from shared.receipt import ReceiptSigner, new_receipt_key
from shared.view import job_view
from tests.shared.jobs import spec

SIGNER = ReceiptSigner(new_receipt_key())
ADAPTER = PinnedAdapter(source="night", scale=0.5, sha256="ad" * 32, location="builtin:night")
SHA = "ab" * 32
LOST = JobError(code="worker_lost", message="lost", retryable=True)


def receipt(job_id: str, attempt: int = 1, *adapters: PinnedAdapter) -> Receipt:
    applied = [
        AppliedAdapterRecord(
            source=one.source, revision=None, sha256=one.sha256 or "", rank=4, scale=one.scale, layers_applied=3,
            text_encoder_layers=0,
        )
        for one in adapters
    ]  # fmt: skip
    return SIGNER.signed(
        Receipt(
            job=job_id, adapters=applied, base_model="tiny-flux", base_revision="r", recipe="eager", fingerprint="f",
            library_versions={}, worker="w", attempt=attempt, images_sha256=[SHA],
        )
    )  # fmt: skip


def with_record(job: JobEvidence, **changes: object) -> JobEvidence:
    assert job.record is not None
    record = job.record.model_copy(update=changes)
    return replace(job, record=record, view=job_view(record, "http://api"))


def sound(number: int = 0, status: Status = Status.SUCCEEDED) -> JobEvidence:
    """A job that ended as it should."""
    job_id = f"job{number}"
    asked = Asked(
        number,
        {
            "prompt": "a fox", "base_model": "tiny-flux", "seed": 7, "steps": 4,
            "adapters": [{"source": "night", "scale": 0.5}],
        },
        1.0 if status is Status.CANCELLED else None,
    )  # fmt: skip
    image = ImageRecord(key=f"jobs/{job_id}/1/0.png", sha256=SHA, width=64, height=64, content_type="image/png", seed=7)
    done = Result(images=[image], receipt=receipt(job_id, 1, ADAPTER), timings_ms={})
    record = Job(
        id=job_id, version=1, status=status, base_model="tiny-flux", group="g",
        spec=spec().model_copy(update={"adapters": [ADAPTER]}), attempt=1, created_ms=1, rank_ms=1, finished_ms=2,
        result=done if status is Status.SUCCEEDED else None, error=LOST if status is Status.FAILED else None,
    )  # fmt: skip
    return JobEvidence(
        followed=Followed(asked, job_id, 0.0, ends={status}),
        record=record,
        view=job_view(record, "http://api"),
        ends=(status.value,),
        stored_sha256=(SHA,) if status is Status.SUCCEEDED else (),
    )


def evidence(*jobs: JobEvidence) -> Evidence:
    return Evidence(
        jobs=jobs,
        jobs_known=len(jobs),
        receipt_keys={SIGNER.key_id: SIGNER.public_key},
        calls=[
            Call(f"evt_{job.followed.id}", job.followed.id, f"job.{job.record.status.value}", "b", True)
            for job in jobs
            if job.record
        ],
        objects=frozenset(
            image.key for job in jobs if job.record and job.record.result for image in job.record.result.images
        ),
        keys_left=[(keys.JOB(job.followed.id), 1000) for job in jobs],
        leases=0,
        events_waiting=0,
    )  # fmt: skip


def broken(found: Evidence) -> set[str]:
    return {kind for kind, count in counts(judge(found)).items() if count}


def test_nothing_is_wrong_with_a_sound_run() -> None:
    ends = (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.SUCCEEDED)
    assert judge(evidence(*(sound(number, status) for number, status in enumerate(ends)))) == []


def _with_result(job: JobEvidence, **changes: object) -> JobEvidence:
    assert job.record is not None
    assert job.record.result is not None
    return with_record(job, result=job.record.result.model_copy(update=changes))


FORGED = receipt("job0", 1, ADAPTER).model_copy(update={"worker": "another"})
STRONGER = receipt("job0", 1, ADAPTER.model_copy(update={"scale": 1.0}))
BAD_JOBS: list[tuple[str, Callable[[JobEvidence], JobEvidence]]] = [
    ("lost", lambda job: replace(job, record=None, view=None)),
    ("lost", lambda job: with_record(job, status=Status.RUNNING)),
    ("double_terminal", lambda job: replace(job, ends=("succeeded", "failed"))),
    ("double_terminal", lambda job: replace(job, ends=("succeeded", "succeeded"))),
    ("double_terminal", lambda job: replace(job, ends=())),
    ("double_terminal", lambda job: replace(job, followed=replace(job.followed, ends={Status.FAILED}))),
    ("wrong_images", lambda job: replace(job, stored_sha256=(None,))),
    ("wrong_images", lambda job: replace(job, stored_sha256=("cd" * 32,))),
    ("wrong_images", lambda job: with_record(job, attempt=2)),
    ("wrong_images", lambda job: _with_result(job, receipt=receipt("job0"))),
    ("wrong_images", lambda job: _with_result(job, receipt=receipt("job1", 1, ADAPTER))),
    ("wrong_images", lambda job: _with_result(job, receipt=FORGED)),
    ("wrong_images", lambda job: _with_result(job, receipt=STRONGER)),
    ("wrong_ends", lambda job: replace(job, followed=replace(job.followed, cancelled=True))),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "spoil"), BAD_JOBS)
def test_each_bad_job_is_found(kind: str, spoil: Callable[[JobEvidence], JobEvidence]) -> None:
    assert kind in broken(evidence(spoil(sound()), sound(1)))


@pytest.mark.parametrize("status", [Status.CANCELLED, Status.EXPIRED])
def test_an_end_that_nobody_asked_for_is_found(status: Status) -> None:
    job = sound(0, status)
    asked = replace(job.followed.asked, cancel_after_s=None)
    assert broken(evidence(replace(job, followed=replace(job.followed, asked=asked)))) == {"wrong_ends"}


def test_a_failure_that_faults_do_not_explain_is_found() -> None:
    other = LOST.model_copy(update={"code": "generation_failed"})
    assert broken(evidence(with_record(sound(0, Status.FAILED), error=other))) == {"wrong_ends"}


def test_equal_requests_with_other_pixels_are_found() -> None:
    one, two, three = (sound(number) for number in range(3))
    assert broken(evidence(one, two, replace(three, stored_sha256=("cd" * 32,)))) == {"wrong_images"}


def test_what_the_run_as_a_whole_left_is_found() -> None:
    good = evidence(sound())
    call = good.calls[0]
    cases: list[tuple[str, Evidence]] = [
        ("orphans", replace(good, objects=good.objects | {"jobs/job0/2/0.png"})),
        ("leaked_keys", replace(good, keys_left=[*good.keys_left, (keys.LEASES(), -1)])),
        ("leases", replace(good, leases=1)),
        ("missing_events", replace(good, events_waiting=1)),
        ("missing_events", replace(good, calls=[])),
        ("missing_events", replace(good, calls=[replace(call, taken=False)])),
        ("duplicate_events", replace(good, calls=[call, replace(call, event_id="evt_other")])),
        ("duplicate_events", replace(good, calls=[call, replace(call, body_sha256="c")])),
        ("duplicate_events", replace(good, calls=[call, replace(call, job_id="", type="")])),
        ("unasked_jobs", replace(good, jobs_known=2)),
    ]
    for kind, found in cases:
        assert broken(found) == {kind}


def test_the_same_event_may_come_again() -> None:
    good = evidence(sound())
    assert judge(replace(good, calls=[replace(good.calls[0], taken=False), *good.calls, *good.calls])) == []
