"""The queue of one base model in memory: what the scripts on the server keep, and what they answer."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from heapq import heappop, heappush

from shared.groups import WaitingGroup
from shared.queue import HEADS_CONSIDERED

Waiting = tuple[int, str, int, str]
"""Rank time, name, number and tenant of a job."""


class Line:
    """As ``snapshot.lua`` and ``claim.lua`` do it: the same heads, the same count of who was overtaken how often."""

    def __init__(self) -> None:
        self._groups: dict[str, list[Waiting]] = {}
        self._heads: list[tuple[int, str, str]] = []
        self._claims: list[int] = []
        self.waiting = 0

    @property
    def oldest_ms(self) -> int | None:
        """The earliest rank time that waits."""
        return self._heads[0][0] if self._heads else None

    def add(self, group: str, rank_ms: int, number: int, tenant: str) -> None:
        """A job arrives."""
        own = self._groups.setdefault(group, [])
        if own:
            self._heads.pop(bisect_left(self._heads, (own[0][0], own[0][1], group)))
        heappush(own, (rank_ms, f"{number:07}", number, tenant))
        insort(self._heads, (own[0][0], own[0][1], group))
        self.waiting += 1

    def look(self, resident: str, elsewhere: Counter[str]) -> list[WaitingGroup]:
        """The oldest heads, and the resident one. ``elsewhere``: how many other workers have each group."""
        considered = [group for _, _, group in self._heads[:HEADS_CONSIDERED]]
        if len(self._heads) > HEADS_CONSIDERED and resident in self._groups and resident not in considered:
            considered.append(resident)
        return [self._seen(group, elsewhere) for group in considered]

    def claim(self, group: str) -> tuple[int, int]:
        """Take the head of a group; its number, and how often it was overtaken."""
        own = self._groups[group]
        rank_ms, name, number, _ = heappop(own)
        self._heads.pop(bisect_left(self._heads, (rank_ms, name, group)))
        overtaken = self._overtaken(rank_ms)
        insort(self._claims, rank_ms)
        if own:
            insort(self._heads, (own[0][0], own[0][1], group))
        else:
            del self._groups[group]
        oldest_ms = self.oldest_ms
        del self._claims[: len(self._claims) if oldest_ms is None else bisect_right(self._claims, oldest_ms)]
        self.waiting -= 1
        return number, overtaken

    def _overtaken(self, rank_ms: int) -> int:
        return len(self._claims) - bisect_right(self._claims, rank_ms)

    def _seen(self, group: str, elsewhere: Counter[str]) -> WaitingGroup:
        own = self._groups[group]
        rank_ms, name, _, tenant = own[0]
        return WaitingGroup(
            group, name, rank_ms, self._overtaken(rank_ms), len(own), tenant, None, elsewhere.get(group, 0)
        )
