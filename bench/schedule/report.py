"""The outcomes as numbers, and the ratios to the order of arrival that are promised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from bench.schedule.scenarios import A_COLD, A_WARM, B_COLD, B_FLEET, B_WARM, SERVICE_MS, Run, Scenario

BOUNDED = ("ours", "ours-alone")


class Row(TypedDict):
    """One run. ``load``: by service time, swaps on top. ``lower_bound``: swaps per job that any order needs."""

    trace: str
    policy: str
    load: float
    workers: int
    swap_s: float
    swaps_per_job: float
    lower_bound: float
    p50_wait_s: float
    p99_wait_s: float
    worst_overtaken: int
    fairness_index: float


@dataclass(frozen=True)
class Report:
    """Rows of runs, with the scenario of each."""

    rows: list[tuple[Scenario, Row]]

    def row(self, scenario: Scenario, policy: str) -> Row:
        """The row of one run."""
        return next(row for own, row in self.rows if own is scenario and row["policy"] == policy)

    def swaps_ratio(self, scenario: Scenario, to: str = "arrival") -> float:
        """Our swaps, in parts of another policy's."""
        return self.row(scenario, "ours")["swaps_per_job"] / self.row(scenario, to)["swaps_per_job"]

    def p99_ratio(self, scenario: Scenario) -> float:
        """Our 99th percentile of waits, in parts of that of the order of arrival."""
        return self.row(scenario, "ours")["p99_wait_s"] / self.row(scenario, "arrival")["p99_wait_s"]

    def summary(self, bound: int) -> dict[str, float]:
        """What is promised."""
        ratios = {
            "trace_a_cold_swaps_ratio": self.swaps_ratio(A_COLD),
            "trace_a_cold_p99_ratio": self.p99_ratio(A_COLD),
            "trace_b_cold_swaps_ratio": self.swaps_ratio(B_COLD),
            "trace_b_cold_p99_ratio": self.p99_ratio(B_COLD),
            "warm_p99_ratio_max": max(self.p99_ratio(A_WARM), self.p99_ratio(B_WARM)),
            "affinity_8_workers_swaps_ratio": self.swaps_ratio(B_FLEET),
            "affinity_on_off_swaps_ratio_max": max(
                self.swaps_ratio(scenario, "ours-alone")
                for scenario in {id(own): own for own, _ in self.rows if own.workers > 1}.values()
            ),
        }
        worst = max(row["worst_overtaken"] for _, row in self.rows if row["policy"] in BOUNDED)
        return {name: round(value, 3) for name, value in ratios.items()} | {"bound": bound, "worst_overtaken": worst}


def report_of(runs: Sequence[Run]) -> Report:
    """All runs as rows."""
    return Report([(run.scenario, row_of(run)) for run in runs])


def row_of(run: Run) -> Row:
    """One run as a row."""
    scenario, outcome = run.scenario, run.outcome
    jobs = len(outcome.waits_ms)
    waits_ms = sorted(outcome.waits_ms)
    return Row(
        trace=scenario.trace,
        policy=run.policy.name,
        load=scenario.load,
        workers=scenario.workers,
        swap_s=scenario.swap_ms / 1000,
        swaps_per_job=round(outcome.swaps / jobs, 4),
        lower_bound=round(outcome.floor / jobs, 4),
        p50_wait_s=round(waits_ms[jobs // 2] / 1000, 3),
        p99_wait_s=round(waits_ms[jobs * 99 // 100] / 1000, 3),
        worst_overtaken=max(outcome.overtaken),
        fairness_index=round(jain([wait_ms + SERVICE_MS for wait_ms in waits_ms]), 4),
    )


def jain(values: Sequence[float]) -> float:
    """Jain's fairness index of the jobs' times from arrival to image: 1 when all took equally long, 1/n at worst."""
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))
