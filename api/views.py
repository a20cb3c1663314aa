"""The service as callers see it: pages of jobs, base models, queues, workers, readiness."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, Field

from shared.adapters.inspection import Inspection
from shared.catalogue import BaseModelEntry, Sampling, Sizes
from shared.groups import WaitingGroup
from shared.job import Job
from shared.presence import State, WorkerInfo
from shared.registry import RegisteredAdapter
from shared.sources.source import shown
from shared.view import JobView, Moment, moment


class JobsPage(BaseModel):
    """Some jobs, newest first."""

    jobs: list[JobView]
    next_cursor: str | None = Field(description="Send it as ?cursor= for the next page; null on the last one.")


class BaseModelView(BaseModel):
    """One served base model: its limits and defaults."""

    name: str = Field(examples=["tiny-flux"])
    family: str
    revision: str
    recipe: str = Field(description="The recipe that its workers use; auto: the first that each one's machine can run.")
    recipes: list[str] = Field(description="All recipes that it has, the best first.")
    dtype: str
    largest_rank: int = Field(description="Largest sum of the ranks of one job's adapters.")
    sizes: Sizes
    sampling: Sampling
    adapters: list[str] = Field(description="Names registered for it.")
    live_workers: int


class BaseModelsView(BaseModel):
    """What is served."""

    base_models: list[BaseModelView]


class AdapterView(BaseModel):
    """One registered adapter."""

    name: str = Field(examples=["sketch"])
    base_model: str
    source: str
    sha256: str | None
    rank: int = Field(description="Largest rank over its layers.")
    pinned: bool = Field(description="Workers fetch it beforehand and keep it in memory.")
    inspection: Inspection | None = Field(description="What was seen at registration; null if it comes with a model.")


class AdaptersView(BaseModel):
    """All registered adapters."""

    adapters: list[AdapterView]


class GroupView(BaseModel):
    """Waiting jobs that need the same adapters."""

    adapters: list[str] = Field(description="Sources, as the group's first job names them; empty: no adapter.")
    waiting: int
    oldest_wait_ms: int = Field(description="How long the group's first job has waited.")
    overtaken: int = Field(description="Jobs of later rank that went before the group's first job.")


class QueueView(BaseModel):
    """The queue of one base model."""

    base_model: str = Field(examples=["tiny-flux"])
    depth: int = Field(description="Waiting jobs.")
    groups: list[GroupView] = Field(description="Oldest first, at most 64.")
    oldest_wait_ms: int | None = Field(description="Null when nothing waits.")
    running: int
    live_workers: int
    paused: bool
    warning: str | None = Field(
        description="Set when jobs have to wait: nobody serves this base model or knows how to read its oldest job, or "
        "its queue is paused."
    )
    claims: int = Field(description="Claims since the queue was made.")
    swaps: int = Field(description="Changes of adapters since the queue was made.")
    overtaken_max: int = Field(description="The most that any job has been overtaken; never above the bound.")


class PausedView(BaseModel):
    """Whether jobs are held back now."""

    paused: bool


class QueuesView(BaseModel):
    """All queues."""

    queues: list[QueueView]


class WorkerView(BaseModel):
    """One living worker."""

    name: str
    base_model: str
    state: State
    drained: bool = Field(description="It is given no more jobs until it is resumed.")
    job: str | None = Field(description="The job it works on.")
    resident: list[str] = Field(description="Sources of the adapters in its slot.")
    warm: list[str] = Field(description="Sources of adapters in its memory, last used first, at most 32.")
    warm_adapters: int = Field(description="How many adapters are in its memory.")
    warm_bytes: int = Field(description="What they occupy.")
    recipe: str = Field(description="The recipe really in force.")
    base_revision: str
    version: str
    host: str
    pid: int
    jobs: int = Field(description="Jobs done since it started.")
    swaps: int = Field(description="Changes of adapters since it started.")
    load_ms: int = Field(description="Time it took to load its base model and warm it up.")
    recompiles: int = Field(description="Graphs compiled since the warm-up, while jobs waited; not 0 means a fault.")
    warmup_ms: int = Field(description="Time of that for the warm-up: everything is compiled then that ever will be.")
    busy_ratio: float | None = Field(
        description="Share of the last 5 minutes, as far as jobs waited, in which its denoiser ran; null if none did."
    )
    started_at: Moment
    seen_at: Moment


class WorkersView(BaseModel):
    """All living workers."""

    workers: list[WorkerView]


class AliveView(BaseModel):
    """The process is up."""

    status: str = Field(examples=["ok"])


class PartView(BaseModel):
    """One part that the service needs."""

    ok: bool
    detail: str = Field(description="One sentence when it is not.")


class ReceiptKeyView(BaseModel):
    """One public key that receipts are signed with."""

    id: str = Field(description="As in the receipt's signature.")
    algorithm: Literal["ed25519"] = "ed25519"
    public_key: str = Field(description="32 bytes in base64.")


class ReceiptKeysView(BaseModel):
    """All public keys that receipts are signed with, also those of workers that are gone."""

    keys: list[ReceiptKeyView]


class ReadyView(BaseModel):
    """Whether jobs can be taken, part by part."""

    ready: bool
    parts: dict[str, PartView]


def adapter_view(adapter: RegisteredAdapter, pinned: Collection[str]) -> AdapterView:
    """A registered adapter as callers see it; ``pinned``: names of those that are."""
    return AdapterView(
        name=adapter.name,
        base_model=adapter.base_model,
        source=shown(adapter.location),
        sha256=adapter.sha256,
        rank=adapter.rank,
        pinned=adapter.name in pinned,
        inspection=adapter.inspection,
    )


def base_model_view(
    entry: BaseModelEntry, registered: Iterable[RegisteredAdapter], workers: Sequence[WorkerInfo]
) -> BaseModelView:
    """A catalogue entry as callers see it."""
    return BaseModelView(
        name=entry.name,
        family=entry.family,
        revision=entry.revision,
        recipe=entry.recipe,
        recipes=list(entry.recipes),
        dtype=entry.dtype,
        largest_rank=entry.slot.top_rank,
        sizes=entry.sizes,
        sampling=entry.sampling,
        adapters=sorted(adapter.name for adapter in registered if adapter.base_model == entry.name),
        live_workers=len(_living(entry.name, workers)),
    )


def group_view(group: WaitingGroup, head: Job, now_ms: int) -> GroupView:
    """A waiting group; its label comes from its first job."""
    return GroupView(
        adapters=[adapter.source for adapter in head.spec.adapters],
        waiting=group.waiting,
        oldest_wait_ms=max(0, now_ms - head.created_ms),
        overtaken=group.overtaken,
    )


def queue_view(
    base_model: str,
    depth: int,
    groups: list[GroupView],
    running: int,
    workers: Sequence[WorkerInfo],
    stats: Mapping[str, int],
    *,
    is_served: bool,
    is_paused: bool,
    drained: Collection[str] = (),
    oldest_version: int = 0,
) -> QueueView:
    """One queue, with a warning when nobody serves it.

    ``drained``: names of workers that get no jobs. ``oldest_version``: of the record of the oldest waiting job.
    """
    living = _living(base_model, workers)
    warning: str | None
    if not is_served:
        warning = f"{base_model} is not in the catalogue any more: bring it back, or cancel the jobs that wait for it."
    elif is_paused:
        warning = f"The queue of {base_model} is paused: resume it with POST /v1/queues/{base_model}/resume."
    else:
        warning = _shortage(base_model, living, drained, oldest_version)
    return QueueView(
        base_model=base_model,
        depth=depth,
        groups=groups,
        oldest_wait_ms=max((group.oldest_wait_ms for group in groups), default=None),
        running=running,
        live_workers=len(living),
        paused=is_paused,
        warning=warning,
        claims=stats.get("claims", 0),
        swaps=stats.get("swaps", 0),
        overtaken_max=stats.get("overtaken_max", 0),
    )


def _shortage(
    base_model: str, living: Sequence[WorkerInfo], drained: Collection[str], oldest_version: int
) -> str | None:
    if not living:
        return f"No worker serves {base_model} right now."
    if all(worker.name in drained for worker in living):
        return f"Every worker of {base_model} is drained: resume one with POST /v1/workers/NAME/resume."
    if oldest_version > max(worker.record_version for worker in living):
        return f"The oldest job of {base_model} needs a newer worker: upgrade the workers, or cancel that job."
    return None


def worker_view(worker: WorkerInfo, is_drained: bool = False) -> WorkerView:
    """A worker as last reported."""
    values = worker.model_dump(include=set(WorkerView.model_fields)) | {"job": worker.job or None}
    return WorkerView(
        **values, drained=is_drained, started_at=moment(worker.started_ms), seen_at=moment(worker.seen_ms)
    )


def _living(base_model: str, workers: Sequence[WorkerInfo]) -> list[WorkerInfo]:
    return [worker for worker in workers if worker.base_model == base_model and worker.state != "stopping"]
