"""What the API answers, as far as it is read here. Unknown fields are passed over: a newer API may send more."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class ServedModel(_Answer):
    """One served base model."""

    name: str
    adapters: list[str]
    live_workers: int


class ServedModels(_Answer):
    """``GET /v1/base-models``."""

    base_models: list[ServedModel]


class Group(_Answer):
    """Waiting jobs that need the same adapters; none: the bare base model."""

    adapters: list[str]
    waiting: int
    oldest_wait_ms: int


class Queue(_Answer):
    """The queue of one base model."""

    base_model: str
    depth: int
    groups: list[Group]
    oldest_wait_ms: int | None
    running: int
    live_workers: int
    warning: str | None
    swaps: int
    overtaken_max: int


class Queues(_Answer):
    """``GET /v1/queues``."""

    queues: list[Queue]


class Worker(_Answer):
    """One living worker."""

    name: str
    base_model: str
    state: str
    job: str | None
    resident: list[str]
    recipe: str
    jobs: int
    swaps: int
    busy_ratio: float | None = None

    @property
    def takes_jobs(self) -> bool:
        """Whether its model is loaded."""
        return self.state in ("idle", "busy")


class Workers(_Answer):
    """``GET /v1/workers``."""

    workers: list[Worker]


class ReceiptKey(_Answer):
    """One public key that receipts are signed with."""

    id: str
    public_key: str


class ReceiptKeys(_Answer):
    """``GET /v1/receipt-keys``."""

    keys: list[ReceiptKey]

    @property
    def by_id(self) -> dict[str, str]:
        """Public keys by id."""
        return {key.id: key.public_key for key in self.keys}


class Progress(_Answer):
    """Data of a ``progress`` event."""

    step: int
    steps: int


class Problem(_Answer):
    """An error answer (RFC 9457)."""

    code: str
    detail: str
    retryable: bool = False
    field: str | None = None


ImageEnding = Literal["png", "jpg", "webp"]
ENDINGS: dict[str, ImageEnding] = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp"}
"""File name ending by content type."""
