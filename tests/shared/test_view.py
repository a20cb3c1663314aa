"""The public form of a job, alone and inside a webhook."""

from __future__ import annotations

import json

import pytest

from shared.job import AppliedAdapterRecord, Job, JobError, Status
from shared.payload import render
from shared.request import WebhookRequest
from shared.view import JobView, job_view, moment
from tests.shared.jobs import result, spec


def record(status: Status, **changes: object) -> Job:
    values: dict[str, object] = {
        "id": "J1",
        "version": 1,
        "status": status,
        "base_model": "tiny-flux",
        "group": "g",
        "spec": spec("a", "b", prompt="ein Fuchs 狐 \u0000\n", metadata={"order": "7"}, num_images=2),
        "created_ms": 1_700_000_000_007,
        "rank_ms": 1_700_000_000_007,
        "steps": 8,
    }
    return Job.model_validate(values | changes)


def succeeded() -> Job:
    made = result("J1", 2)
    applied = AppliedAdapterRecord(
        source="a", revision=None, sha256="0" * 64, rank=4, scale=1.0, layers_applied=9, text_encoder_layers=0
    )
    receipt = made.receipt.model_copy(update={"adapters": [applied]})
    return record(
        Status.SUCCEEDED,
        attempt=2,
        worker="w1",
        step=8,
        started_ms=1_700_000_001_000,
        finished_ms=1_700_000_002_999,
        result=made.model_copy(update={"receipt": receipt, "images": made.images * 2}),
        warnings=["The prompt was cut."],
    )


def test_queued() -> None:
    view = job_view(record(Status.QUEUED), "http://api.example/", position=3)
    assert view.position == 3
    assert view.urls.self == "http://api.example/v1/jobs/J1"
    assert view.urls.cancel == "http://api.example/v1/jobs/J1/cancel"
    assert view.urls.events == "http://api.example/v1/jobs/J1/events"
    assert [adapter.source for adapter in view.adapters] == ["a", "b"]
    assert view.created_at == "2023-11-14T22:13:20.007Z"
    assert (view.images, view.receipt, view.error, view.started_at, view.finished_at) == ([], None, None, None, None)


def test_position_is_shown_only_while_queued() -> None:
    assert job_view(record(Status.RUNNING), "http://api.example", position=0).position is None


def test_succeeded() -> None:
    view = job_view(succeeded(), "http://api.example/base")
    assert [image.url for image in view.images] == [
        "http://api.example/base/v1/jobs/J1/images/0",
        "http://api.example/base/v1/jobs/J1/images/1",
    ]
    assert view.receipt == succeeded().result.receipt  # type: ignore[union-attr]
    assert view.finished_at == "2023-11-14T22:13:22.999Z"
    assert view.progress.step == view.progress.steps == 8


def test_failed() -> None:
    error = JobError(code="adapter_mismatch", message="No.", retryable=False)
    view = job_view(record(Status.FAILED, error=error), "http://api.example")
    assert view.error is not None
    assert view.error.model_dump() == error.model_dump()


def test_nothing_internal_is_shown() -> None:
    text = job_view(succeeded(), "http://api.example").model_dump_json()
    assert "builtin:a" not in text
    assert "jobs/J1/2/0.png" not in text


def test_of_a_webhook_only_its_origin_is_shown() -> None:
    webhook = WebhookRequest(url="https://me:s3cret@example.com:8443/s3cret?token=s3cret", events=["job.failed"])
    job = record(Status.QUEUED)
    job = job.model_copy(update={"spec": job.spec.model_copy(update={"webhook": webhook})})
    view = job_view(job, "http://api.example")
    assert view.webhook is not None
    assert (view.webhook.origin, view.webhook.events) == ("https://example.com:8443", ["job.failed"])
    assert "s3cret" not in view.model_dump_json()


def test_moments() -> None:
    assert moment(0) == "1970-01-01T00:00:00.000Z"
    assert moment(951_782_400_001) == "2000-02-29T00:00:00.001Z"


def test_the_webhook_holds_the_job_as_the_api_shows_it() -> None:
    body = render(succeeded(), "job.succeeded", "http://api.example")
    assert body.isascii()
    event = json.loads(body)
    assert list(event) == ["type", "timestamp", "data"]
    assert event["type"] == "job.succeeded"
    assert event["timestamp"] == event["data"]["finished_at"] == "2023-11-14T22:13:22.999Z"
    assert JobView.model_validate(event["data"]) == job_view(succeeded(), "http://api.example")


def test_only_an_ended_job_makes_a_webhook() -> None:
    with pytest.raises(ValueError, match="not ended"):
        render(record(Status.RUNNING), "job.succeeded", "http://api.example")
