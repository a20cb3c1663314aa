"""The simulator, and what is promised of the order of jobs. All in virtual time, so the numbers are always the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from bench.schedule.plot import COLOURS, SHOWN, WIDTH, draw
from bench.schedule.policies import all_policies, default_limits
from bench.schedule.popularity import SERVICE_A, SERVICE_B, Popularity
from bench.schedule.report import Report, jain, report_of
from bench.schedule.scenarios import A_COLD, A_WARM, B_COLD, B_FLEET, B_WARM, Scenario, run_all
from bench.schedule.simulate import Fleet, simulate
from bench.schedule.table import lines
from bench.schedule.traces import Arrival, Process, make_trace
from worker.choose import Pace

POLICIES = {policy.name: policy for policy in all_policies(default_limits())}
PACE = Pace(service_ms=8000, cold_swap_ms=3000, warm_swap_ms=20)
BOUND = 64


@pytest.mark.parametrize(
    ("popularity", "adapters", "share"),
    [(SERVICE_A, 146, 0.5), (SERVICE_A, 1100, 0.75), (SERVICE_B, 13, 0.5), (SERVICE_B, 152, 0.75)],
)
def test_the_curves_are_those_seen_in_production(popularity: Popularity, adapters: int, share: float) -> None:
    assert popularity.top(adapters) == pytest.approx(share, abs=1e-4)


@pytest.mark.parametrize("process", ["poisson", "bursts", "batches"])
def test_traces_have_the_rate_that_was_asked_for(process: Process) -> None:
    trace = make_trace(SERVICE_B, process, 8000, 0.5, seed=3)
    assert trace == make_trace(SERVICE_B, process, 8000, 0.5, seed=3)
    assert len(trace) == 8000
    assert len(trace) / trace[-1].at_ms * 1000 == pytest.approx(0.5, rel=0.1)


def test_a_day_by_hand() -> None:
    trace = [Arrival(0, "a"), Arrival(1, "b"), Arrival(2, "a"), Arrival(3, "none"), Arrival(60_000, "a")]
    outcome = simulate(trace, POLICIES["greedy"], Fleet(1, PACE))
    # a a b none | a: the first of each pair with a swap of 3 s, for "none" of 20 ms.
    assert outcome.waits_ms == [0, 18_999, 10_998, 29_997, 0]
    assert outcome.overtaken == [0, 1, 0, 0, 0]
    assert (outcome.swaps, outcome.floor) == (4, 4)


def test_two_workers_by_hand() -> None:
    trace = [Arrival(0, "a"), Arrival(0, "b"), *[Arrival(1, "a")] * 2, *[Arrival(1, "b")] * 2]
    outcome = simulate(trace, POLICIES["ours"], Fleet(2, PACE))
    assert outcome.waits_ms == [0, 0, 10_999, 18_999, 10_999, 18_999]
    assert outcome.swaps == 2


def test_adapters_in_memory_come_back_for_little() -> None:
    trace = [Arrival(number * 20_000, "ab"[number % 2]) for number in range(6)]
    trace.append(Arrival(130_000, "c"))
    trace.append(Arrival(130_001, "b"))
    remembered, forgotten = (simulate(trace, POLICIES["arrival"], Fleet(1, PACE, memory)) for memory in (2, 0))
    assert remembered.swaps == forgotten.swaps == 8
    assert remembered.waits_ms[-1] == forgotten.waits_ms[-1] == 10_999
    busy = [Arrival(0, "a"), Arrival(0, "b"), Arrival(0, "a"), Arrival(0, "b")]
    assert simulate(busy, POLICIES["arrival"], Fleet(1, PACE, 2)).waits_ms[-1] == 11_000 + 11_000 + 8020


@pytest.fixture(scope="module")
def report() -> Report:
    return report_of(list(run_all([A_COLD, B_COLD, A_WARM, B_WARM, B_FLEET], list(POLICIES.values()))))


def test_what_is_promised(report: Report) -> None:
    summary = report.summary(BOUND)
    assert summary["trace_a_cold_swaps_ratio"] <= 0.74
    assert summary["trace_b_cold_swaps_ratio"] <= 0.58
    assert summary["trace_a_cold_p99_ratio"] <= 0.7
    assert summary["trace_b_cold_p99_ratio"] <= 0.7
    assert summary["warm_p99_ratio_max"] <= 1.03
    assert summary["affinity_8_workers_swaps_ratio"] <= 0.8
    assert summary["affinity_on_off_swaps_ratio_max"] <= 1.0
    assert summary["bound"] == summary["worst_overtaken"] == BOUND


def test_no_order_needs_fewer_swaps_than_the_floor(report: Report) -> None:
    assert all(0 < row["lower_bound"] <= row["swaps_per_job"] for _, row in report.rows)


@pytest.mark.parametrize("workers", [1, 8])
def test_one_tenants_backlog_does_not_stop_another_one(workers: int) -> None:
    trace = [Arrival(0, "x", "many")] * 2000 + [Arrival(100_000, "y", "one")]
    outcome = simulate(trace, POLICIES["ours"], Fleet(workers, PACE))
    until_one_is_free_ms = PACE.service_ms
    assert outcome.waits_ms[-1] <= until_one_is_free_ms + default_limits().slack_jobs * PACE.service_ms


def test_two_tenants_with_a_backlog_share(report: Report) -> None:
    trace = [Arrival(0, "x", "first")] * 200 + [Arrival(80_000, "y", "second")] * 50
    waits_ms = simulate(trace, POLICIES["ours"], Fleet(1, PACE)).waits_ms
    # Each had half of the time since the second came, so its 50th job is about the 100th from then on.
    assert 80 * 8000 < waits_ms[-1] < 150 * 8000


def test_the_table_and_the_picture(report: Report, tmp_path: Path) -> None:
    table = list(lines([row for _, row in report.rows]))
    assert len({len(line) for line in table if line}) <= 2
    assert {policy for _, scenario in SHOWN for policy in COLOURS if report.row(scenario, policy)} == set(COLOURS)
    draw(report, tmp_path / "out" / "schedule.png")
    with Image.open(tmp_path / "out" / "schedule.png") as picture:
        assert picture.width == WIDTH
        assert {"#2f7d54", "#9aa0a6"} <= {f"#{r:02x}{g:02x}{b:02x}" for _, (r, g, b) in picture.getcolors(1 << 20)}


def test_a_thousand_workers() -> None:
    scenario: Scenario = replace(B_FLEET, workers=1000, jobs=5000)
    (run,) = run_all([scenario], [POLICIES["ours"]])
    assert len(run.outcome.waits_ms) == 5000
    assert max(run.outcome.overtaken) <= BOUND


def test_the_fairness_index() -> None:
    assert jain([5, 5, 5]) == 1
    assert jain([1, 0, 0, 0]) == 0.25
