"""Which adapters will be needed next: plain values in, plain values out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.groups import NO_ADAPTERS, WaitingGroup, short
from shared.job import PinnedAdapter
from shared.meters import Tier
from tests.shared.jobs import adapter
from worker.ahead import Wanted, needs, next_groups, next_to_bring
from worker.choose import Here, Limits, Pace

LIMITS = Limits(streak_max=16, overtake_max=64, payback=200, slack_jobs=2)
PACE = Pace(service_ms=1000, cold_swap_ms=1000, warm_swap_ms=10)
HERE = Here(resident="a", streak=1, warm=frozenset("a"))


def waiting(*keys: str, jobs: int = 1) -> list[WaitingGroup]:
    """Groups whose heads came in this order."""
    return [WaitingGroup(key, f"job{place}", place, 0, jobs, "default") for place, key in enumerate(keys)]


def ahead(groups: list[WaitingGroup], most: int = 4, here: Here = HERE) -> list[str]:
    return next_groups(groups, here, PACE, LIMITS, most)


def test_the_oldest_cold_groups_in_their_order() -> None:
    assert ahead(waiting("b", "c", "d", "e", "f")) == ["b", "c", "d", "e"]
    assert ahead(waiting("b", "c"), most=1) == ["b"]
    assert ahead([]) == []
    assert ahead(waiting("b"), most=0) == []


def test_the_resident_group_goes_on_and_needs_nothing() -> None:
    assert ahead(waiting("b", "a", "c")) == ["b", "c"]


def test_what_the_policy_serves_first_comes_first() -> None:
    here = replace(HERE, warm=frozenset("ac"))
    assert ahead(waiting("b", "c", "d"), here=here) == ["c", "b", "d"]


def test_the_guess_counts_whom_it_overtakes() -> None:
    """The group in memory has so many jobs that the oldest one, served a group at a time, is at its bound after it."""
    here = replace(HERE, warm=frozenset("acd"))
    cold, large, small = waiting("b", "c", "d")
    assert ahead([cold, large._replace(waiting=64), small], here=here) == ["c", "b", "d"]
    assert ahead([cold, large, small], here=here) == ["c", "d", "b"]


def test_jobs_without_adapters_are_a_group_that_needs_nothing() -> None:
    assert ahead(waiting(NO_ADAPTERS, "b")) == [NO_ADAPTERS, "b"]
    assert not needs(NO_ADAPTERS, frozenset())
    assert needs("a+b", frozenset("a"))
    assert not needs("a+b", frozenset("ab"))


def wanted(name: str, tier: Tier, pinned: bool = False) -> Wanted:
    return Wanted(adapter(name), tier, pinned)


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ([], None),
        ([wanted("a", "memory")], None),
        ([wanted("a", "memory"), wanted("b", "remote"), wanted("c", "remote")], "b"),
        ([wanted("b", "remote"), wanted("c", "disk")], "c"),
        ([wanted("p", "disk", pinned=True), wanted("b", "remote")], "b"),
        ([wanted("p", "remote", pinned=True), wanted("q", "disk", pinned=True)], "q"),
    ],
)
def test_what_to_bring(candidates: list[Wanted], expected: str | None) -> None:
    found = next_to_bring(candidates, tried=())
    assert (found and found.source) == expected


def test_what_was_brought_lately_is_left_alone() -> None:
    failed: PinnedAdapter = adapter("b")
    found = next_to_bring([wanted("b", "remote"), wanted("c", "remote")], tried={failed.identity: 1.0})
    assert found is not None
    assert short(found.identity) == short(adapter("c").identity)
