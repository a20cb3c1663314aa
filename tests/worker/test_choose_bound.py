"""The published bound, for any arrivals, workers, paces and limits."""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.groups import WaitingGroup
from worker.choose import Here, Limits, Pace, choose

KEYS = "abcde"


@dataclass(frozen=True)
class Waiting:
    """A job: its rank time moves away from its arrival by priority and by its tenant's load."""

    rank_ms: int
    name: str
    key: str
    tenant: str


@dataclass
class Line:
    """The queue as the scripts keep it, and beside it who really overtook whom, counted one by one."""

    waiting: list[Waiting] = field(default_factory=list)
    claims: list[int] = field(default_factory=list)
    overtaken: dict[str, int] = field(default_factory=dict)

    def add(self, job: Waiting) -> None:
        self.waiting.append(job)
        self.overtaken[job.name] = 0

    def groups(self, elsewhere: list[str]) -> list[WaitingGroup]:
        heads: dict[str, Waiting] = {}
        for job in sorted(self.waiting, key=lambda job: (job.rank_ms, job.name)):
            heads.setdefault(job.key, job)
        return [
            WaitingGroup(
                key=key,
                head=head.name,
                head_rank_ms=head.rank_ms,
                overtaken=len(self.claims) - bisect_right(self.claims, head.rank_ms),
                waiting=sum(job.key == key for job in self.waiting),
                tenant=head.tenant,
                elsewhere=elsewhere.count(key),
            )
            for key, head in heads.items()
        ]

    def claim(self, key: str) -> None:
        served = min((job for job in self.waiting if job.key == key), key=lambda job: (job.rank_ms, job.name))
        self.waiting.remove(served)
        for job in self.waiting:
            self.overtaken[job.name] += job.rank_ms < served.rank_ms
        insort(self.claims, served.rank_ms)
        oldest_ms = min((job.rank_ms for job in self.waiting), default=10**9)
        del self.claims[: bisect_right(self.claims, oldest_ms)]


arrivals = st.lists(
    st.tuples(
        st.sampled_from(KEYS),
        st.sampled_from(["t", "u"]),
        st.integers(-20, 20).map(lambda shift: shift if abs(shift) > 15 else 0),
        st.lists(st.integers(0, 2), max_size=3),
    ),
    max_size=120,
)
limits = st.builds(
    Limits,
    streak_max=st.integers(1, 50),
    overtake_max=st.integers(1, 10),
    payback=st.sampled_from([0.0, 1.0, 200.0]),
    slack_jobs=st.integers(0, 4),
)
paces = st.builds(
    Pace, service_ms=st.sampled_from([1.0, 8000.0]), cold_swap_ms=st.just(3000.0), warm_swap_ms=st.just(20.0)
)
warm = st.frozensets(st.sampled_from(KEYS))


@settings(max_examples=500, deadline=None)
@given(arrivals=arrivals, limits=limits, pace=paces, warm=warm)
def test_no_job_is_overtaken_beyond_the_bound(
    arrivals: list[tuple[str, str, int, list[int]]], limits: Limits, pace: Pace, warm: frozenset[str]
) -> None:
    line = Line()
    slots = [Here("none", 0, warm)] * 3

    def serve(worker: int) -> None:
        here = slots[worker]
        elsewhere = [other.resident for number, other in enumerate(slots) if number != worker]
        choice = choose(line.groups(elsewhere), here, pace, limits)
        if choice is None:
            assert not line.waiting
            return
        slots[worker] = Here(choice.group, here.streak + 1 if choice.group == here.resident else 1, warm)
        line.claim(choice.group)

    for number, (key, tenant, shift, served_by) in enumerate(arrivals):
        line.add(Waiting(number + shift, f"{number:04}", key, tenant))
        for worker in served_by:
            serve(worker)
    while line.waiting:
        serve(len(line.waiting) % 3)
    assert max(line.overtaken.values(), default=0) <= limits.overtake_max
