"""The service's numbers in the text format of Prometheus (version 0.0.4). Pure: values in, text out.

https://prometheus.io/docs/instrumenting/exposition_formats/: base units (seconds, bytes), counters end in ``_total``, a
duration is a summary without quantiles: sum and count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from shared.job import Status
from shared.meters import Stage, Tier
from shared.presence import WorkerInfo

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Kind = Literal["counter", "gauge", "summary"]


@dataclass(frozen=True)
class QueueNumbers:
    """One base model: waiting and running jobs, ``shared.queue``'s counters, and what its workers have counted."""

    base_model: str
    depth: int
    running: int
    stats: Mapping[str, int]
    meters: Mapping[str, int]


@dataclass(frozen=True)
class Sample:
    """One value; ``suffix`` is added to the metric's name."""

    labels: Mapping[str, str]
    value: float
    suffix: str = ""


@dataclass(frozen=True)
class Metric:
    """One metric with all its samples."""

    name: str
    kind: Kind
    help: str
    samples: list[Sample]


def exposition(queues: Sequence[QueueNumbers], jobs: Mapping[Status, int], workers: Sequence[WorkerInfo]) -> str:
    """The whole answer. ``jobs``: how many there are of each state, ended ones within their retention."""
    metrics = [*_of_queues(queues), _of_jobs(jobs), *_of_workers(queues, workers)]
    return "".join(f"{line}\n" for metric in metrics for line in _lines(metric))


def _of_queues(queues: Sequence[QueueNumbers]) -> list[Metric]:
    def each(name: str, kind: Kind, help: str, value: Callable[[QueueNumbers], float]) -> Metric:
        return Metric(name, kind, help, [Sample({"base_model": one.base_model}, value(one)) for one in queues])

    hits = [
        Sample({"base_model": one.base_model, "tier": tier}, one.meters.get(f"hits_{tier}", 0))
        for one in queues
        for tier in get_args(Tier)
    ]
    return [
        each("hotslot_queue_depth", "gauge", "Waiting jobs.", lambda one: one.depth),
        each("hotslot_running", "gauge", "Jobs under a lease.", lambda one: one.running),
        each("hotslot_claims_total", "counter", "Claims of jobs.", lambda one: one.stats.get("claims", 0)),
        each("hotslot_swaps_total", "counter", "Claims that changed adapters.", lambda one: one.stats.get("swaps", 0)),
        each(
            "hotslot_overtaken_max",
            "gauge",
            "The most that any job has been overtaken; never above the bound.",
            lambda one: one.stats.get("overtaken_max", 0),
        ),
        Metric("hotslot_adapter_hits_total", "counter", "Adapters of jobs, by where they were when needed.", hits),
        each(
            "hotslot_prefetched_total",
            "counter",
            "Adapters brought into memory before a job needed them.",
            lambda one: one.meters.get("prefetched", 0),
        ),
        each(
            "hotslot_recompiles_total",
            "counter",
            "Graphs compiled after the warm-up; anything but 0 is a fault.",
            lambda one: one.meters.get("recompiles", 0),
        ),
        *(_duration(stage, queues) for stage in get_args(Stage)),
    ]


_DURATIONS: dict[Stage, str] = {
    "swap": "Changing the adapters in the slot.",
    "fetch": "Downloading an adapter.",
    "convert": "Reading, verifying and converting an adapter.",
}


def _duration(stage: Stage, queues: Sequence[QueueNumbers]) -> Metric:
    samples = []
    for one in queues:
        labels = {"base_model": one.base_model}
        samples.append(Sample(labels, one.meters.get(f"{stage}_us", 0) / 1e6, "_sum"))
        samples.append(Sample(labels, one.meters.get(f"{stage}_count", 0), "_count"))
    return Metric(f"hotslot_{stage}_seconds", "summary", _DURATIONS[stage], samples)


def _of_jobs(jobs: Mapping[Status, int]) -> Metric:
    samples = [Sample({"state": state.value}, jobs.get(state, 0)) for state in Status]
    return Metric("hotslot_jobs", "gauge", "Jobs by state; ended ones as long as they are listed.", samples)


def _of_workers(queues: Sequence[QueueNumbers], workers: Sequence[WorkerInfo]) -> list[Metric]:
    def each(name: str) -> list[Sample]:
        return [
            Sample({"base_model": one.base_model, "worker": one.name}, value)
            for one in workers
            if (value := getattr(one, name)) is not None
        ]

    living = Counter(one.base_model for one in workers)
    served = [Sample({"base_model": one.base_model}, living[one.base_model]) for one in queues]
    return [
        Metric("hotslot_workers", "gauge", "Workers that reported lately.", served),
        Metric("hotslot_adapter_memory_bytes", "gauge", "Bytes of converted adapters in memory.", each("warm_bytes")),
        Metric(
            "hotslot_busy_ratio",
            "gauge",
            "Share of the last 5 minutes, as far as jobs waited, in which the worker's denoiser ran.",
            each("busy_ratio"),
        ),
        Metric("hotslot_adapters_in_memory", "gauge", "Converted adapters in memory.", each("warm_adapters")),
    ]


def _lines(metric: Metric) -> Iterable[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for sample in metric.samples:
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sample.labels.items())
        yield f"{metric.name}{sample.suffix}{{{labels}}} {sample.value}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
