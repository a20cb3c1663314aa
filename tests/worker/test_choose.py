"""The policy, and the bound that it promises."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from shared.queue import WaitingGroup
from worker.choose import Choice, Limits, Reason, choose

LIMITS = Limits(streak_max=4, slack_ms=1000, overtake_max=8)


def group(key: str, head_rank_ms: int, overtaken: int = 0) -> WaitingGroup:
    return WaitingGroup(key, head_rank_ms, overtaken, waiting=1)


def test_nothing_waits() -> None:
    assert choose([], "a", 0, LIMITS) is None


def test_stays_on_the_resident_adapter() -> None:
    assert choose([group("b", 0), group("a", 900)], "a", 1, LIMITS) == Choice("a", Reason.RESIDENT)


def test_streak_ends() -> None:
    assert choose([group("b", 0), group("a", 900)], "a", 4, LIMITS) == Choice("b", Reason.OLDEST)


def test_slack_ends_a_stay() -> None:
    assert choose([group("b", 0), group("a", 1001)], "a", 1, LIMITS) == Choice("b", Reason.OLDEST)


def test_bound_goes_first() -> None:
    assert choose([group("b", 0, overtaken=8), group("a", 1)], "a", 0, LIMITS) == Choice("b", Reason.BOUND)


def test_no_adapter_is_a_group_like_any_other() -> None:
    assert choose([group("none", 5), group("a", 1)], "none", 0, LIMITS) == Choice("none", Reason.RESIDENT)


def test_a_long_streak_goes_on_when_nothing_else_waits() -> None:
    assert choose([group("a", 5)], "a", 100, LIMITS) == Choice("a", Reason.OLDEST)


@dataclass
class Line:
    """The queue in a few lines: jobs are (rank, group), and each counts who overtook it."""

    waiting: dict[int, str] = field(default_factory=dict)
    overtaken: dict[int, int] = field(default_factory=dict)

    def groups(self) -> list[WaitingGroup]:
        heads: dict[str, int] = {}
        for rank, key in sorted(self.waiting.items()):
            heads.setdefault(key, rank)
        return [group(key, rank, self.overtaken[rank]) for key, rank in heads.items()]

    def serve(self, key: str) -> None:
        served = min(rank for rank, own in self.waiting.items() if own == key)
        del self.waiting[served]
        for rank in self.waiting:
            if rank < served:
                self.overtaken[rank] += 1


@given(
    arrivals=st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 3)), max_size=120),
    streak_max=st.integers(1, 50),
    slack_ms=st.integers(0, 200),
    overtake_max=st.integers(1, 10),
)
def test_no_job_is_overtaken_beyond_the_bound(
    arrivals: list[tuple[str, int]], streak_max: int, slack_ms: int, overtake_max: int
) -> None:
    limits = Limits(streak_max, slack_ms, overtake_max)
    line = Line()
    resident, streak = "none", 0

    def serve() -> None:
        nonlocal resident, streak
        choice = choose(line.groups(), resident, streak, limits)
        assert choice is not None
        streak = streak + 1 if choice.group == resident else 1
        resident = choice.group
        line.serve(choice.group)

    for rank, (key, served) in enumerate(arrivals):
        line.waiting[rank], line.overtaken[rank] = key, 0
        for _ in range(min(served, len(line.waiting))):
            serve()
    while line.waiting:
        serve()
    assert max(line.overtaken.values(), default=0) <= overtake_max
