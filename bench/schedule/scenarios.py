"""What is simulated: each scenario is a trace and a fleet, run with every policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from bench.schedule.policies import Policy
from bench.schedule.popularity import SERVICE_A, SERVICE_B, ZIPF, Popularity
from bench.schedule.simulate import Fleet, Outcome, simulate
from bench.schedule.traces import Arrival, Process, make_trace
from worker.choose import Pace

SERVICE_MS = 8000.0
COLD_MS = 3000.0
WARM_MS = 20.0
JOBS = 6000
LOAD = 0.9
SEED = 1


@dataclass(frozen=True)
class Scenario:
    """``load``: service time that arrives per worker and time; swaps come on top. ``memory``: adapters per worker."""

    trace: str
    popularity: Popularity
    workers: int = 1
    swap_ms: float = COLD_MS
    load: float = LOAD
    process: Process = "poisson"
    memory: int = 0
    jobs: int = JOBS
    seed: int = SEED

    @cached_property
    def arrivals(self) -> list[Arrival]:
        """The trace itself."""
        per_s = self.load * self.workers / (SERVICE_MS / 1000)
        return make_trace(self.popularity, self.process, self.jobs, per_s, self.seed)

    @property
    def fleet(self) -> Fleet:
        """The workers."""
        return Fleet(self.workers, Pace(SERVICE_MS, self.swap_ms, WARM_MS), self.memory)


@dataclass(frozen=True)
class Run:
    """One scenario under one policy."""

    scenario: Scenario
    policy: Policy
    outcome: Outcome


A_COLD = Scenario("a", SERVICE_A)
B_COLD = Scenario("b", SERVICE_B)
A_WARM = Scenario("a", SERVICE_A, swap_ms=WARM_MS)
B_WARM = Scenario("b", SERVICE_B, swap_ms=WARM_MS)
B_FLEET = Scenario("b", SERVICE_B, workers=8)

DEFAULT: tuple[Scenario, ...] = (
    A_COLD,
    B_COLD,
    A_WARM,
    B_WARM,
    Scenario("a", SERVICE_A, workers=8),
    B_FLEET,
    Scenario("b", SERVICE_B, workers=64),
    Scenario("a", SERVICE_A, load=0.5),
    Scenario("b", SERVICE_B, load=0.5),
    Scenario("b", SERVICE_B, swap_ms=300.0),
    Scenario("b-bursts", SERVICE_B, process="bursts"),
    Scenario("a-batches", SERVICE_A, process="batches"),
    Scenario("b-memory", SERVICE_B, workers=8, memory=64),
    Scenario("zipf", ZIPF),
)

LARGE = Scenario("b-large", SERVICE_B, workers=1000, jobs=100_000)


def run_all(scenarios: Sequence[Scenario], policies: Sequence[Policy]) -> Iterator[Run]:
    """Every scenario under every policy, one after the other."""
    for scenario in scenarios:
        for policy in policies:
            # With one worker there is nobody to know about.
            if scenario.workers > 1 or policy.name != "ours-alone":
                yield Run(scenario, policy, simulate(scenario.arrivals, policy, scenario.fleet))
