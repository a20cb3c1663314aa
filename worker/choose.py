"""Which waiting group to serve next. Pure: no clock, no server, no torch.

Within a group jobs go by rank time. Across groups the oldest head goes first, unless another group is cheaper to serve
now and the swap that this saves is worth the wait: counting this one, the oldest job may be overtaken
``payback * saved_ms / service_ms`` times, and never more than ``overtake_max`` times. The first number follows what
swaps and jobs were measured to take, so that almost free swaps leave the order of arrival. The second is the published
bound; the script that hands out jobs enforces it again, so that several workers choosing at once cannot break it.

docs/scheduling.md derives the bound, and says why the limits are what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from shared.groups import WaitingGroup, adapters_of


class Reason(StrEnum):
    """Why a group was chosen."""

    CHEAPEST = "cheapest"
    OLDEST = "oldest"
    TENANT = "tenant"
    DEADLINE = "deadline"
    BOUND = "bound"


@dataclass(frozen=True)
class Limits:
    """How far the order of rank times may be left.

    ``streak_max``: jobs in a row from one group while others wait. ``overtake_max``: the published bound. ``payback``:
    a saved swap may cost the oldest job as long a wait as this many swaps. ``slack_jobs``: jobs of one tenant that may
    follow each other while an older job of another tenant waits.
    """

    streak_max: int
    overtake_max: int
    payback: float
    slack_jobs: int


@dataclass(frozen=True)
class Pace:
    """What a job takes once its adapters are in the slot, and what it takes to bring them there, milliseconds.

    ``warm_swap_ms``: adapters in this worker's memory; ``cold_swap_ms``: any others.
    """

    service_ms: float
    cold_swap_ms: float
    warm_swap_ms: float


@dataclass(frozen=True)
class Here:
    """The worker that chooses.

    ``resident``: group whose adapters are in the slot ("none" for the bare base model). ``streak``: jobs served from
    it without a break. ``warm``: adapters in memory, as group keys name them.
    """

    resident: str
    streak: int
    warm: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Choice:
    """The group to serve, and why."""

    group: str
    reason: Reason


def choose(groups: Sequence[WaitingGroup], here: Here, pace: Pace, limits: Limits) -> Choice | None:
    """The group to claim from, or None when nothing waits. ``groups``: the oldest heads, and the resident's.

    What other workers are about to come for is left to them, unless nothing else waits or the bound is reached.
    """
    if not groups:
        return None
    oldest = min(groups, key=_rank)
    if oldest.overtaken < limits.overtake_max:
        groups = [group for group in groups if group.marked < max(1, group.waiting)] or groups
        oldest = min(groups, key=_rank)
    costs_ms = {group.key: cost_ms(group, here, pace, limits) for group in groups}
    cheapest = min(groups, key=lambda group: (costs_ms[group.key], _rank(group)))
    saved_ms = costs_ms[oldest.key] - costs_ms[cheapest.key]
    if not saved_ms:
        return Choice(oldest.key, Reason.OLDEST)
    if oldest.overtaken >= limits.overtake_max:
        return Choice(oldest.key, Reason.BOUND)
    if (oldest.overtaken + 1) * pace.service_ms > limits.payback * saved_ms:
        return Choice(oldest.key, Reason.OLDEST)
    if _another_tenant_waits(groups, cheapest, limits):
        return Choice(oldest.key, Reason.TENANT)
    if _last_moment(oldest, costs_ms[oldest.key], pace):
        return Choice(oldest.key, Reason.DEADLINE)
    return Choice(cheapest.key, Reason.CHEAPEST)


def cost_ms(group: WaitingGroup, here: Here, pace: Pace, limits: Limits) -> float:
    """Time that goes into swaps if the group is served here and now.

    A group that another worker has resident costs twice, because there it costs nothing; unless so many jobs wait that
    all who have it are busy with them for a whole streak.
    """
    if group.key == here.resident and here.streak < limits.streak_max:
        return 0.0
    swap_ms = pace.warm_swap_ms if adapters_of(group.key) <= here.warm else pace.cold_swap_ms
    return 2 * swap_ms if 0 < group.waiting <= group.elsewhere * limits.streak_max else swap_ms


def _another_tenant_waits(groups: Sequence[WaitingGroup], cheapest: WaitingGroup, limits: Limits) -> bool:
    """Whether an older job of another tenant has let enough jobs pass."""
    return any(
        group.tenant != cheapest.tenant and group.overtaken + 1 >= limits.slack_jobs and _rank(group) < _rank(cheapest)
        for group in groups
    )


def _last_moment(oldest: WaitingGroup, swap_ms: float, pace: Pace) -> bool:
    """Whether it will still meet its deadline if it is served now, but not if another job goes first.

    A deadline only ends a detour: it moves no job before an older one, or everybody would set one.
    """
    needed_ms = swap_ms + pace.service_ms
    return oldest.left_ms is not None and needed_ms <= oldest.left_ms < needed_ms + pace.service_ms


def _rank(group: WaitingGroup) -> tuple[int, str]:
    return group.head_rank_ms, group.head
