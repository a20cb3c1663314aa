"""A demo that went well, to be spoilt by tests."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from PIL import Image

from cli.demo.outcome import Cancelling, Ended, Outcome
from cli.demo.plan import Planned, make_plan
from cli.demo.receiver import Received
from shared.ids import new_job_id
from shared.job import AppliedAdapterRecord, Receipt, Status
from shared.view import AdapterView, ImageView, JobView, job_view
from tests.cli.api_server import job_record
from tests.shared.test_receipt import KEYS, SIGNER

URL = "http://127.0.0.1:1"


def sha256_of_name(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def good_outcome(folder: Path) -> Outcome:
    """Every job as it must be; a plain picture for each that has an image."""
    planned = make_plan(f"{URL}/webhook")
    ended = [ended_of(one, folder) for one in planned]
    call = next(one for one in ended if one.planned.webhook_url)
    received = Received("evt_1", "job.succeeded", call.job.id, "succeeded")
    return Outcome(ended, [received], Cancelling(1, 400, "running"), 6, KEYS)


def ended_of(planned: Planned, folder: Path) -> Ended:
    path = None
    if not planned.cancel:
        path = folder / planned.file_name
        Image.new("RGB", (16, 16), (planned.number, 0, 0)).save(path)
    return Ended(planned, view_of(planned), path)


def view_of(planned: Planned) -> JobView:
    adapters = [
        AdapterView(source=one.source, scale=one.scale, sha256=sha256_of_name(one.source), revision=None)
        for one in planned.adapters
    ]
    view = job_view(job_record(planned.ends), URL).model_copy(
        update={"id": new_job_id(), "prompt": planned.prompt, "seed": planned.seed, "adapters": adapters}
    )
    view = view.model_copy(update={"created_at": f"2026-03-01T12:00:00.{planned.number:03d}Z"})
    return (
        view if planned.ends is not Status.SUCCEEDED else view.model_copy(update=result_of(view.id, planned, adapters))
    )


def result_of(job_id: str, planned: Planned, adapters: list[AdapterView]) -> dict[str, Any]:
    image = ImageView(
        url=f"{URL}/{planned.number}",
        sha256=sha256_of_name(planned.file_name),
        width=128,
        height=128,
        content_type="image/png",
        seed=planned.seed,
    )
    applied = [
        AppliedAdapterRecord(
            source=one.source,
            revision=None,
            sha256=one.sha256,
            rank=4,
            scale=one.scale,
            layers_applied=8,
            text_encoder_layers=0,
        )
        for one in adapters
    ]
    receipt = Receipt(
        job=job_id,
        adapters=applied,
        base_model="tiny-flux",
        base_revision="1",
        recipe="eager",
        fingerprint="f",
        library_versions={},
        worker="w",
        attempt=1,
        images_sha256=[image.sha256],
    )
    return {
        "images": [image],
        "receipt": SIGNER.signed(receipt),
        "timings_ms": {"swap": 1.0, "denoise": planned.number + 0.5},
    }


def spoilt(outcome: Outcome, number: int, **changes: Any) -> Outcome:
    """The outcome with one job's view changed."""
    ended = [
        Ended(one.planned, one.job.model_copy(update=changes), one.image) if one.planned.number == number else one
        for one in outcome.ended
    ]
    return Outcome(ended, outcome.calls, outcome.cancelling, outcome.swaps, outcome.receipt_keys)
