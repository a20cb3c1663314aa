"""The values that the documentation shows: requests, a job in each state, a worker."""

from __future__ import annotations

from fastapi.openapi.models import Example

from api.views import ReceiptKeyView
from shared.adapters.inspection import Inspection, Ranks, Trained, Verdict
from shared.job import AppliedAdapterRecord, ImageRecord, Job, JobSpec, PinnedAdapter, Receipt, Result, Status
from shared.presence import WorkerInfo
from shared.receipt import ReceiptSigner
from shared.registry import RegisteredAdapter
from shared.view import JobView, job_view

ID = "01KJ9QZ7W5V0T3N8M2C4X6B1AD"
SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
PUBLIC_URL = "http://127.0.0.1:8000"
CREATED_MS = 1_772_366_400_250
PROMPT = "a small red circle on a blue background"

REQUESTS: dict[str, Example] = {
    "one adapter": {
        "summary": "One adapter; its base model follows from it",
        "value": {"prompt": PROMPT, "adapters": [{"source": "outline"}]},
    },
    "everything": {
        "summary": "Two adapters and every choice",
        "value": {
            "prompt": PROMPT,
            "base_model": "tiny-flux",
            "adapters": [{"source": "outline", "scale": 0.8}, {"source": "night", "scale": 0.5}],
            "width": 128,
            "height": 128,
            "steps": 8,
            "seed": 7,
            "num_images": 2,
            "format": "webp",
            "priority": "high",
            "deadline_seconds": 300,
            "webhook": {"url": "https://example.com/hooks/hotslot", "events": ["job.succeeded", "job.failed"]},
            "metadata": {"order": "1234"},
        },
    },
    "no adapter": {
        "summary": "The base model alone",
        "value": {"prompt": PROMPT, "base_model": "tiny-flux", "seed": 7},
    },
}


def _job(status: Status, result: Result | None = None) -> JobView:
    spec = JobSpec(
        prompt=PROMPT,
        base_model="tiny-flux",
        adapters=[PinnedAdapter(source="outline", scale=1.0, sha256=SHA256, location="builtin:outline")],
        width=128,
        height=128,
        steps=8,
        guidance_scale=1.0,
        seed=7,
        num_images=1,
        format="png",
    )
    begun = status is not Status.QUEUED
    job = Job(
        id=ID,
        version=1,
        status=status,
        base_model="tiny-flux",
        group=SHA256[:16],
        spec=spec,
        attempt=int(begun),
        worker="tiny-flux-1" if begun else None,
        created_ms=CREATED_MS,
        rank_ms=CREATED_MS,
        started_ms=CREATED_MS + 40 if begun else None,
        finished_ms=CREATED_MS + 900 if status.terminal else None,
        step=8 if result else 0,
        steps=8,
        result=result,
    )
    return job_view(job, PUBLIC_URL, 3)


def _result() -> Result:
    image = ImageRecord(
        key=f"jobs/{ID}/1/0.png", sha256=SHA256, width=128, height=128, content_type="image/png", seed=7
    )
    applied = AppliedAdapterRecord(
        source="outline", revision=None, sha256=SHA256, rank=16, scale=1.0, layers_applied=14, text_encoder_layers=0
    )
    receipt = Receipt(
        adapters=[applied],
        base_model="tiny-flux",
        base_revision="builtin",
        recipe="eager",
        fingerprint="5e1f0c",
        library_versions={"torch": "2.13.0"},
        worker="tiny-flux-1",
        attempt=1,
        images_sha256=[SHA256],
    )
    timings_ms = {"queued": 40.0, "fetch": 0.2, "swap": 0.6, "denoise": 610.0, "encode_image": 4.0, "upload": 6.0}
    return Result(images=[image], receipt=receipt, timings_ms=timings_ms)


JOBS = {
    "queued": _job(Status.QUEUED),
    "running": _job(Status.RUNNING),
    "succeeded": _job(Status.SUCCEEDED, _result()),
    "cancelled": _job(Status.CANCELLED),
}
WORKER = WorkerInfo(
    name="tiny-flux-1",
    base_model="tiny-flux",
    state="busy",
    host="gpu-1",
    pid=4711,
    version="0.1.0",
    recipe="eager",
    base_revision="builtin",
    started_ms=CREATED_MS - 60_000,
    seen_ms=CREATED_MS,
    job=ID,
    resident=("outline",),
    warm=("outline", "night"),
    warm_adapters=2,
    warm_bytes=1_148_928,
    swaps=5,
    jobs=24,
    load_ms=1900,
    warmup_ms=300,
    busy_ratio=0.97,
)

_SIGNER = ReceiptSigner("aG90c2xvdC1leGFtcGxlLXJlY2VpcHQta2V5LTMyYiE=")
RECEIPT_KEY = ReceiptKeyView(id=_SIGNER.key_id, public_key=_SIGNER.public_key)

INSPECTION = Inspection(
    size_bytes=68_224,
    sha256=None,
    verdict=Verdict(base_model="tiny-flux", outcome="converts"),
    family="flux.1",
    dialect="kohya",
    tensors=6,
    dtypes={"BF16": 6},
    ranks=Ranks(smallest=8, largest=8, layers={8: 2}),
    alphas="all",
    text_encoder_keys=0,
    targets={"transformer.transformer_blocks.*.attn.to_out.0": 2},
    trained=Trained(base_model=["tiny-flux"], trigger_words=["sketch of"], modelspec={"title": "sketch"}),
)
REFUSED = Inspection(
    size_bytes=1324,
    sha256=None,
    verdict=Verdict(
        base_model="tiny-flux",
        outcome="refused",
        code="adapter_unreadable",
        reason="web_page",
        sentence="not a safetensors file: it is a web page (HTML or XML); download the file itself.",
    ),
)
SKETCH = RegisteredAdapter(
    name="sketch",
    base_model="tiny-flux",
    sha256=SHA256,
    location="file:mine/sketch.safetensors",
    rank=8,
    inspection=INSPECTION,
)
