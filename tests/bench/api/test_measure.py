"""The statistics of the API bench."""

from __future__ import annotations

import os

import pytest

from bench.api.load import cpu_seconds
from bench.api.measure import bottleneck, per_request_ms, summary


def test_median_and_99th_percentile() -> None:
    found = summary([number / 1000 for number in range(1, 101)])
    assert found.count == 100
    assert found.p50_ms == pytest.approx(50.5)
    assert 98.5 < found.p99_ms <= 100


def test_one_outlier_moves_only_the_percentile() -> None:
    found = summary([0.001] * 50 + [1.0])
    assert found.p50_ms == 1.0
    assert found.p99_ms > 400


def test_the_bottleneck_is_who_costs_most() -> None:
    cpu_ms = per_request_ms({"api": 1.0, "valkey": 1.0}, {"api": 2.0, "valkey": 1.5}, 100)
    assert cpu_ms == {"api": 10.0, "valkey": 5.0}
    assert bottleneck(cpu_ms) == "api"


def test_cpu_time_of_a_process_grows_with_its_work() -> None:
    pids = {"me": os.getpid()}
    before_s = cpu_seconds(pids)
    while cpu_seconds(pids)["me"] <= before_s["me"]:
        sum(range(10_000))
    assert per_request_ms(before_s, cpu_seconds(pids), 1)["me"] > 0
