"""The orders that are compared: the worker's own, and what people use today. All see the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shared.groups import WaitingGroup
from shared.settings import Settings
from worker.choose import Here, Limits, Pace, choose

AgeMs = Callable[[WaitingGroup], float]
Pick = Callable[[Sequence[WaitingGroup], Here, Pace, AgeMs], str]
"""From what waits, the worker, its pace and the age of each head to the group to serve."""

OVERDUE_MS = 60_000
STREAK = 16


@dataclass(frozen=True)
class Policy:
    """An order. ``knows_others``: whether it is told what other workers have in their slots."""

    name: str
    pick: Pick
    knows_others: bool = False


def default_limits() -> Limits:
    """The limits that a worker has if nobody sets any."""
    fields = Settings.model_fields
    return Limits(
        streak_max=fields["streak_max"].default,
        overtake_max=fields["overtake_max"].default,
        payback=fields["payback"].default,
        slack_jobs=fields["slack_jobs"].default,
    )


def arrival(groups: Sequence[WaitingGroup], here: Here, pace: Pace, age_ms: AgeMs) -> str:
    """The oldest job."""
    return _oldest(groups).key


def greedy(groups: Sequence[WaitingGroup], here: Here, pace: Pace, age_ms: AgeMs) -> str:
    """The adapter in the slot, as long as anybody wants it."""
    return here.resident if _waits(groups, here.resident) else _oldest(groups).key


def age_limit(groups: Sequence[WaitingGroup], here: Here, pace: Pace, age_ms: AgeMs) -> str:
    """The adapter in the slot, unless a job has waited for more than a minute."""
    oldest = _oldest(groups)
    return oldest.key if age_ms(oldest) > OVERDUE_MS else greedy(groups, here, pace, age_ms)


def streak(groups: Sequence[WaitingGroup], here: Here, pace: Pace, age_ms: AgeMs) -> str:
    """The adapter in the slot, for 16 jobs at most."""
    return greedy(groups, here, pace, age_ms) if here.streak < STREAK else _oldest(groups).key


def ours(limits: Limits) -> Pick:
    """What a worker does."""

    def pick(groups: Sequence[WaitingGroup], here: Here, pace: Pace, age_ms: AgeMs) -> str:
        choice = choose(groups, here, pace, limits)
        if choice is None:
            raise AssertionError("nothing was chosen though something waits")
        return choice.group

    return pick


def all_policies(limits: Limits) -> list[Policy]:
    """Every order that is compared, the order of arrival first."""
    return [
        Policy("arrival", arrival),
        Policy("age-limit", age_limit),
        Policy("greedy", greedy),
        Policy("streak", streak),
        Policy("ours", ours(limits), knows_others=True),
        Policy("ours-alone", ours(limits)),
    ]


def _oldest(groups: Sequence[WaitingGroup]) -> WaitingGroup:
    return min(groups, key=lambda group: (group.head_rank_ms, group.head))


def _waits(groups: Sequence[WaitingGroup], key: str) -> bool:
    return any(group.key == key for group in groups)
