"""The policy, case by case; ``test_choose_bound.py`` holds it to the bound."""

from __future__ import annotations

import pytest

from shared.groups import WaitingGroup
from worker.choose import Choice, Here, Limits, Pace, Reason, choose

LIMITS = Limits(streak_max=4, overtake_max=8, payback=200, slack_jobs=2)
PACE = Pace(service_ms=8000, cold_swap_ms=3000, warm_swap_ms=20)
ON_A = Here("a", 1)


def group(key: str, rank_ms: int, overtaken: int = 0, **more: object) -> WaitingGroup:
    values = {"head": f"job{rank_ms}", "waiting": 1, "tenant": "t"} | more
    return WaitingGroup(key=key, head_rank_ms=rank_ms, overtaken=overtaken, **values)  # type: ignore[arg-type]


def test_nothing_waits() -> None:
    assert choose([], ON_A, PACE, LIMITS) is None


def test_stays_on_the_resident_adapter() -> None:
    assert choose([group("b", 0), group("a", 900)], ON_A, PACE, LIMITS) == Choice("a", Reason.CHEAPEST)


def test_streak_ends() -> None:
    assert choose([group("b", 0), group("a", 900)], Here("a", 4), PACE, LIMITS) == Choice("b", Reason.OLDEST)


def test_a_long_streak_goes_on_when_nothing_else_waits() -> None:
    assert choose([group("a", 5)], Here("a", 100), PACE, LIMITS) == Choice("a", Reason.OLDEST)


def test_bound_goes_first() -> None:
    assert choose([group("b", 0, overtaken=8), group("a", 1)], ON_A, PACE, LIMITS) == Choice("b", Reason.BOUND)


def test_no_adapter_is_a_group_like_any_other() -> None:
    waiting = [group("a", 1), group("none", 5)]
    assert choose(waiting, Here("none", 1), PACE, LIMITS) == Choice("none", Reason.CHEAPEST)


@pytest.mark.parametrize(
    ("swap_ms", "overtaken", "group_served"),
    [(3000, 0, "a"), (300, 0, "a"), (300, 6, "a"), (300, 7, "b"), (20, 0, "b"), (0, 0, "b")],
)
def test_the_wait_of_the_oldest_is_weighed_against_the_swap_that_is_saved(
    swap_ms: float, overtaken: int, group_served: str
) -> None:
    pace = Pace(service_ms=8000, cold_swap_ms=swap_ms, warm_swap_ms=20)
    choice = choose([group("b", 0, overtaken), group("a", 900)], ON_A, pace, LIMITS)
    assert choice is not None
    assert choice.group == group_served


def test_without_payback_it_is_the_order_of_arrival() -> None:
    limits = Limits(streak_max=4, overtake_max=8, payback=0, slack_jobs=2)
    assert choose([group("b", 0), group("a", 900)], ON_A, PACE, limits) == Choice("b", Reason.OLDEST)


def test_warm_before_cold() -> None:
    waiting = [group("b", 0), group("c", 1), group("d+e", 2), group("d+f", 3)]
    here = Here("a", 1, frozenset("de"))
    assert choose(waiting, here, PACE, LIMITS) == Choice("d+e", Reason.CHEAPEST)


def test_resident_before_warm() -> None:
    here = Here("a", 1, frozenset("b"))
    pace = Pace(service_ms=100, cold_swap_ms=3000, warm_swap_ms=20)
    assert choose([group("b", 0), group("a", 1)], here, pace, LIMITS) == Choice("a", Reason.CHEAPEST)


def test_what_another_worker_has_in_its_slot_is_left_to_it() -> None:
    waiting = [group("b", 0, waiting=4, elsewhere=1), group("c", 1)]
    assert choose(waiting, ON_A, PACE, LIMITS) == Choice("c", Reason.CHEAPEST)


def test_a_long_backlog_is_shared() -> None:
    waiting = [group("b", 0, waiting=5, elsewhere=1), group("c", 1)]
    assert choose(waiting, ON_A, PACE, LIMITS) == Choice("b", Reason.OLDEST)


def test_what_is_elsewhere_is_served_when_nothing_else_waits() -> None:
    assert choose([group("b", 0, elsewhere=1)], ON_A, PACE, LIMITS) == Choice("b", Reason.OLDEST)


def test_another_tenant_waits_for_few_jobs_only() -> None:
    def choice(overtaken: int, tenant: str) -> Choice | None:
        return choose([group("b", 0, overtaken, tenant=tenant), group("a", 1)], ON_A, PACE, LIMITS)

    assert choice(0, "other") == Choice("a", Reason.CHEAPEST)
    assert choice(1, "other") == Choice("b", Reason.TENANT)
    assert choice(1, "t") == Choice("a", Reason.CHEAPEST)


def test_another_tenants_job_of_later_rank_has_to_wait() -> None:
    waiting = [group("b", 0), group("a", 1), group("c", 2, 5, tenant="other")]
    assert choose(waiting, ON_A, PACE, LIMITS) == Choice("a", Reason.CHEAPEST)


@pytest.mark.parametrize(
    ("left_ms", "group_served"), [(60_000, "a"), (19_000, "a"), (18_999, "b"), (11_000, "b"), (10_999, "a")]
)
def test_a_deadline_ends_a_detour_as_long_as_it_can_be_met(left_ms: int, group_served: str) -> None:
    choice = choose([group("b", 0, left_ms=left_ms), group("a", 1)], ON_A, PACE, LIMITS)
    assert choice is not None
    assert choice.group == group_served


def test_a_deadline_moves_no_job_before_an_older_one() -> None:
    waiting = [group("b", 0), group("c", 1, left_ms=12_000)]
    assert choose(waiting, ON_A, PACE, LIMITS) == Choice("b", Reason.OLDEST)


def test_equal_ranks_go_by_job() -> None:
    waiting = [group("b", 7, head="job2"), group("c", 7, head="job1")]
    assert choose(waiting, ON_A, PACE, LIMITS) == Choice("c", Reason.OLDEST)


def test_what_another_worker_is_about_to_come_for_is_left_to_it() -> None:
    groups = [group("b", 0, marked=1), group("c", 5)]
    assert choose(groups, ON_A, PACE, LIMITS) == Choice("c", Reason.OLDEST)
    assert choose(groups[:1], ON_A, PACE, LIMITS) == Choice("b", Reason.OLDEST)
    assert choose([group("b", 0, marked=1, waiting=2), *groups[1:]], ON_A, PACE, LIMITS) == Choice("b", Reason.OLDEST)


def test_the_bound_goes_before_what_another_worker_is_about_to_come_for() -> None:
    groups = [group("b", 0, overtaken=8, marked=1), group("a", 5)]
    assert choose(groups, ON_A, PACE, LIMITS) == Choice("b", Reason.BOUND)
