"""Statistics of latencies, and which process a request costs most. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True)
class Latencies:
    """Summary of many latencies."""

    count: int
    p50_ms: float
    p99_ms: float


def summary(latencies_s: Sequence[float]) -> Latencies:
    """Median and 99th percentile; at least two latencies."""
    p99_s = quantiles(latencies_s, n=100, method="inclusive")[98]
    return Latencies(len(latencies_s), round(median(latencies_s) * 1000, 2), round(p99_s * 1000, 2))


def per_request_ms(before_s: Mapping[str, float], after_s: Mapping[str, float], requests: int) -> dict[str, float]:
    """CPU milliseconds of each process for one request, from its CPU seconds before and after."""
    return {name: round((after_s[name] - before_s[name]) * 1000 / requests, 3) for name in before_s}


def bottleneck(cpu_ms: Mapping[str, float]) -> str:
    """The process that a request costs most."""
    return max(cpu_ms, key=cpu_ms.__getitem__)
