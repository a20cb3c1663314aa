"""A job's life: its states, the one table of legal changes, and its record.

    queued ──▶ running ──▶ succeeded | failed | cancelled | expired
       │  ▲────────┘ (handed back, or its worker was lost)
       └──▶ cancelled | expired

The table is also the one that the Lua scripts obey: ``shared.queue`` writes it into their prelude.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from shared.errors import HotslotError
from shared.request import ImageFormat, Priority, WebhookRequest
from shared.sources.identity import identity_key

RECORD_VERSION = 1


class Status(StrEnum):
    """The states of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    @property
    def terminal(self) -> bool:
        """Whether a job in this state never changes again."""
        return not LEGAL_CHANGES[self]


LEGAL_CHANGES: dict[Status, frozenset[Status]] = {
    Status.QUEUED: frozenset({Status.RUNNING, Status.CANCELLED, Status.EXPIRED}),
    Status.RUNNING: frozenset({Status.QUEUED, Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.EXPIRED}),
    Status.SUCCEEDED: frozenset(),
    Status.FAILED: frozenset(),
    Status.CANCELLED: frozenset(),
    Status.EXPIRED: frozenset(),
}

TERMINAL = tuple(status for status in Status if status.terminal)


class _Record(BaseModel):
    # Records written by a newer version may carry more; an older reader must not choke on them.
    model_config = ConfigDict(extra="ignore", frozen=True)


class PinnedAdapter(_Record):
    """An adapter as admitted: what was asked for, and exactly which bytes that means.

    ``source`` is for people: without the query of an URL. ``location`` is where a worker reads it: ``builtin:NAME``,
    ``file:PATH`` below the adapter folder, or a remote source, pinned as far as its kind allows; it may hold a secret
    query, so it is shown nowhere. ``revision``: the version that must be found there. ``sha256``: None where the
    source did not tell it; the receipt has the one that the worker computed.
    """

    source: str
    scale: float
    sha256: str | None
    location: str
    revision: str | None = None

    @property
    def identity(self) -> str:
        """The same for the same bytes, as far as admission knew: their hash, else that of place and version; hex."""
        return self.sha256 or identity_key(self.location, self.revision)


class JobSpec(_Record):
    """What a worker needs to draw the job: the request with every default filled in."""

    prompt: str
    negative_prompt: str | None = None
    base_model: str
    adapters: list[PinnedAdapter]
    width: int
    height: int
    steps: int
    guidance_scale: float
    seed: int
    num_images: int
    format: ImageFormat
    priority: Priority = "normal"
    deadline_seconds: float | None = None
    webhook: WebhookRequest | None = None
    metadata: dict[str, str] = {}


class ImageRecord(_Record):
    """One stored image; ``key`` is its place in the object store."""

    key: str
    sha256: str
    width: int
    height: int
    content_type: str
    seed: int


class AppliedAdapterRecord(_Record):
    """What the slot held of one adapter; ``rank`` is the largest over its layers."""

    source: str
    revision: str | None
    sha256: str
    rank: int
    scale: float
    layers_applied: int
    text_encoder_layers: int


class ReceiptSignature(_Record):
    """Who vouches for a receipt: ``value`` is the base64 of an Ed25519 signature (see ``shared.receipt``)."""

    algorithm: Literal["ed25519"] = "ed25519"
    key_id: str
    value: str


class Receipt(_Record):
    """Which adapters, base model and software made the images; ``fingerprint`` was read back from the slot."""

    job: str = ""
    adapters: list[AppliedAdapterRecord]
    base_model: str
    base_revision: str
    recipe: str
    fingerprint: str
    library_versions: dict[str, str]
    worker: str
    attempt: int
    images_sha256: list[str]
    signature: ReceiptSignature | None = None


class Result(_Record):
    """What a succeeded job holds."""

    images: list[ImageRecord]
    receipt: Receipt
    timings_ms: dict[str, float]


class JobError(_Record):
    """Why a job failed."""

    code: str
    message: str
    retryable: bool

    @classmethod
    def of(cls, error: HotslotError) -> JobError:
        """The form in which a job keeps this error."""
        return cls(code=error.code, message=error.message, retryable=error.retryable)


class Job(_Record):
    """A job's record as read from Redis. Times are Unix milliseconds of the Redis server's clock."""

    id: str
    version: int
    status: Status
    base_model: str
    group: str
    spec: JobSpec
    attempt: int = 0
    """Number of claims so far; the current claim's fencing token."""
    losses: int = 0
    """Attempts that ended because their worker died."""
    worker: str | None = None
    created_ms: int
    rank_ms: int
    started_ms: int | None = None
    """First claim."""
    claimed_ms: int | None = None
    """Latest claim."""
    finished_ms: int | None = None
    step: int = 0
    steps: int = 0
    stop: Literal["", "cancelled", "expired"] = ""
    """How the running job was asked to stop."""
    warnings: list[str] = []
    result: Result | None = None
    error: JobError | None = None


def read_job(fields: dict[str, str]) -> Job:
    """A job from its Redis hash; fields never written are absent. ``ValueError`` when the hash is not a job's."""
    values: dict[str, Any] = {name: value for name, value in fields.items() if value != ""}
    values.setdefault("stop", "")
    for name in ("spec", "warnings", "result", "error"):
        if name in values:
            values[name] = json.loads(values[name])
    return Job.model_validate(values)
