"""What will be needed next, guessed from what is known now. Pure: no clock, no server, no torch.

The guess plays the choosing policy against itself, a whole group at a time. Jobs that come meanwhile can prove it
wrong, which costs nothing but the guess: the job at hand always brings what it needs by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from shared.groups import WaitingGroup, adapters_of
from shared.job import PinnedAdapter
from shared.meters import Tier
from worker.choose import Here, Limits, Pace, choose


@dataclass(frozen=True)
class Wanted:
    """An adapter that may be needed soon, and where it would be taken from now. ``pinned``: only because it is so."""

    adapter: PinnedAdapter
    tier: Tier
    pinned: bool = False


def next_groups(groups: Sequence[WaitingGroup], here: Here, pace: Pace, limits: Limits, most: int) -> list[str]:
    """Keys of up to so many groups that would be served after the resident one, in their order."""
    left, found = list(groups), list[str]()
    while len(found) < most and (choice := choose(left, here, pace, limits)):
        served = next(group for group in left if group.key == choice.group)
        if served.key != here.resident:
            found.append(served.key)
        left = [_after(group, served) for group in left if group is not served]
        here = replace(here, resident=served.key, streak=1, warm=here.warm | adapters_of(served.key))
    return found


def next_to_bring(wanted: Iterable[Wanted], tried: Collection[str]) -> PinnedAdapter | None:
    """The one to bring into memory now; None when nothing is to be done.

    What lies on disk goes first, because that takes moments, and gives the policy something warm to choose while
    another one downloads; what is merely pinned goes last. ``wanted``: in the order of need. ``tried``: identities that
    were brought lately, whatever came of it: they failed, or the memory is too small to hold them beside the others.
    """
    missing = [one for one in wanted if one.tier != "memory" and one.adapter.identity not in tried]
    first = min(missing, key=lambda one: (one.pinned, one.tier == "remote"), default=None)
    return first.adapter if first else None


def needs(group: str, warm: frozenset[str]) -> bool:
    """Whether some adapter of the group is not in memory; both as ``shared.groups`` names adapters."""
    return not adapters_of(group) <= warm


def _after(group: WaitingGroup, served: WaitingGroup) -> WaitingGroup:
    """A waiting group once another one was served: overtaken by it, if that is of later rank."""
    earlier = (group.head_rank_ms, group.head) < (served.head_rank_ms, served.head)
    return group._replace(overtaken=group.overtaken + served.waiting) if earlier else group
