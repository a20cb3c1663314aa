"""HTTP callers that cost as little as they can, so that what is measured is the API."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from bench.api.measure import Latencies, per_request_ms, summary

TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Loaded:
    """What so many callers saw together. ``cpu_ms``: of each process, for one request."""

    callers: int
    per_s: float
    latencies: Latencies
    cpu_ms: Mapping[str, float]


class Caller:
    """One connection that stays open."""

    def __init__(self, host: str, port: int) -> None:
        self._connection = HTTPConnection(host, port, timeout=TIMEOUT_S)

    def ask(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        """The answer's JSON; RuntimeError for any status but success."""
        headers = {"content-type": "application/json"} if body else {}
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        data = response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {data[:500]!r}")
        answer: dict[str, Any] = json.loads(data)
        return answer

    def close(self) -> None:
        """Give up the connection."""
        self._connection.close()


Ask = Callable[[Caller, int], Any]


def load(open_caller: Callable[[], Caller], callers: int, requests: int, ask: Ask, pids: Mapping[str, int]) -> Loaded:
    """Let ``callers`` make ``requests`` in all, each the next as soon as it has its answer; ``ask`` gets the number."""
    before_s, began_s = cpu_seconds(pids), time.perf_counter()
    with ThreadPoolExecutor(callers) as pool:
        shares = [range(first, requests, callers) for first in range(callers)]
        taken_s = [
            one for share in pool.map(lambda numbers: _asked(open_caller, numbers, ask), shares) for one in share
        ]
    wall_s = time.perf_counter() - began_s
    cpu_ms = per_request_ms(before_s, cpu_seconds(pids), requests)
    return Loaded(callers, round(requests / wall_s, 1), summary(taken_s), cpu_ms)


def cpu_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """CPU time that each process has used so far."""
    return {name: _cpu_s(pid) for name, pid in pids.items()}


def _cpu_s(pid: int) -> float:
    # Fields 14 and 15 of proc_pid_stat(5), counted after the name, which may hold spaces.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _asked(open_caller: Callable[[], Caller], numbers: range, ask: Ask) -> list[float]:
    with _calling(open_caller) as caller:
        return [_timed(lambda number=number: ask(caller, number)) for number in numbers]  # type: ignore[misc]


def _timed(call: Callable[[], Any]) -> float:
    began_s = time.perf_counter()
    call()
    return time.perf_counter() - began_s


@contextmanager
def _calling(open_caller: Callable[[], Caller]) -> Iterator[Caller]:
    caller = open_caller()
    try:
        yield caller
    finally:
        caller.close()
