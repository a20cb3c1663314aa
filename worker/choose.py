"""Which waiting group to serve next. Pure: no clock, no server, no torch.

Within a group jobs go by rank time. Across groups: stay on the adapters that are in the slot, because changing them
costs a swap, but only within three limits. A streak ends after ``streak_max`` jobs; the resident group's head may rank
at most ``slack_ms`` later than the oldest waiting job; and once the oldest waiting job has been overtaken
``overtake_max`` times, it is served. The last limit is the published bound; the claim script enforces it again, so
that several workers choosing at once cannot break it together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from shared.queue import WaitingGroup


class Reason(StrEnum):
    """Why a group was chosen."""

    RESIDENT = "resident"
    OLDEST = "oldest"
    BOUND = "bound"


@dataclass(frozen=True)
class Limits:
    """See the module's text. ``slack_ms`` compares rank times of waiting jobs, never ages."""

    streak_max: int
    slack_ms: int
    overtake_max: int


@dataclass(frozen=True)
class Choice:
    """The group to serve, and why."""

    group: str
    reason: Reason


def choose(groups: Sequence[WaitingGroup], resident: str, streak: int, limits: Limits) -> Choice | None:
    """The group whose head to claim, or None when nothing waits.

    ``resident``: group whose adapters are in the slot ("none" for the bare base model). ``streak``: jobs served from
    it without a break. Measured swap cost, warm adapters and other workers' residents will weigh in here.
    """
    if not groups:
        return None
    oldest = min(groups, key=lambda group: (group.head_rank_ms, group.key))
    if oldest.overtaken >= limits.overtake_max:
        return Choice(oldest.key, Reason.BOUND)
    staying = next((group for group in groups if group.key == resident), None)
    within_streak = streak < limits.streak_max
    if staying and within_streak and staying.head_rank_ms - oldest.head_rank_ms <= limits.slack_ms:
        return Choice(staying.key, Reason.RESIDENT)
    return Choice(oldest.key, Reason.OLDEST)
