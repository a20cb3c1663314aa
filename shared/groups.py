"""Groups: waiting jobs that need the same adapters, whatever their strengths, are served one after the other."""

from __future__ import annotations

from typing import NamedTuple

from shared.job import JobSpec

NO_ADAPTERS = "none"
"""Key of the jobs that need the bare base model: a group like any other."""


class WaitingGroup(NamedTuple):
    """A group and its head: the one of its jobs that would be claimed.

    ``overtaken``: how many jobs of later rank went before the head. ``left_ms``: time until its deadline, if it has
    one. ``elsewhere``: how many other workers have the group's adapters in their slots. ``marked``: how many of its
    waiting jobs other workers are about to come for.
    """

    key: str
    head: str
    head_rank_ms: int
    overtaken: int
    waiting: int
    tenant: str
    left_ms: int | None = None
    elsewhere: int = 0
    marked: int = 0


def waiting_group(
    key: str,
    head: str,
    rank_ms: str,
    overtaken: str,
    waiting: str,
    tenant: str,
    left_ms: str,
    elsewhere: str,
    marked: str,
) -> WaitingGroup:
    """A group as ``snapshot.lua`` tells it."""
    return WaitingGroup(
        key=key,
        head=head,
        head_rank_ms=int(float(rank_ms)),
        overtaken=int(overtaken),
        waiting=int(waiting),
        tenant=tenant,
        left_ms=int(left_ms) if left_ms else None,
        elsewhere=int(elsewhere),
        marked=int(marked),
    )


def group_of(spec: JobSpec) -> str:
    """Group key: the adapters' identities without strengths, in an order that does not depend on the request's."""
    return "+".join(sorted(short(adapter.identity) for adapter in spec.adapters)) or NO_ADAPTERS


def adapters_of(group: str) -> frozenset[str]:
    """The adapters that a group key names, as ``short`` names them."""
    return frozenset() if group == NO_ADAPTERS else frozenset(group.split("+"))


def short(identity: str) -> str:
    """What a group key holds of an adapter's identity (or SHA-256, where that is its identity)."""
    return identity[:16]
