"""Small builders that several tests share."""

from __future__ import annotations

from typing import Any

from shared.job import ImageRecord, Job, JobSpec, PinnedAdapter, Receipt, Result
from shared.queue import Queue
from shared.request import WebhookRequest


def adapter(name: str, scale: float = 1.0) -> PinnedAdapter:
    return PinnedAdapter(
        source=name, scale=scale, sha256=name.encode().hex().ljust(64, "0"), location=f"builtin:{name}"
    )


def spec(*adapters: str, **changes: Any) -> JobSpec:
    values: dict[str, Any] = {
        "prompt": "a fox",
        "base_model": "tiny-flux",
        "adapters": [adapter(name) for name in adapters],
        "width": 64,
        "height": 64,
        "steps": 4,
        "guidance_scale": 3.5,
        "seed": 7,
        "num_images": 1,
        "format": "png",
    }
    return JobSpec(**(values | changes))


def result(job_id: str, attempt: int) -> Result:
    image = ImageRecord(
        key=f"jobs/{job_id}/{attempt}/0.png", sha256="0" * 64, width=64, height=64, content_type="image/png", seed=7
    )
    receipt = Receipt(
        adapters=[],
        base_model="tiny-flux",
        base_revision="builtin",
        recipe="eager",
        fingerprint="0",
        library_versions={},
        worker="w1",
        attempt=attempt,
        images_sha256=["0" * 64],
    )
    return Result(images=[image], receipt=receipt, timings_ms={"denoise": 1.0})


def end(queue: Queue, job_id: str, webhook: WebhookRequest | None = None, **changes: Any) -> str:
    """Submit, claim and succeed; nothing else may wait in the job's group."""
    queue.submit(job_id, spec(webhook=webhook, **changes))
    job = queue.claim("tiny-flux", queue.get(job_id).group, "w1")
    assert isinstance(job, Job)
    assert job.id == job_id
    assert queue.succeed(job_id, job.attempt, result(job_id, job.attempt), []) == "ok"
    return job_id
