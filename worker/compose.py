"""What the slot must hold for a job: its adapters with their strengths, side by side along the rank."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from shared.errors import AdapterRankTooLarge
from worker.layout import Layout, Layouts
from worker.packed import Packed, packed, part_of

Weighted = tuple[Packed, float]
"""An adapter and its strength."""


def check_ranks(adapters: Sequence[Packed], top_rank: int) -> None:
    """Raise ``AdapterRankTooLarge`` if the ranks of one layer sum to more than the slot takes."""
    for name, rank in summed_ranks([adapter.layout for adapter in adapters]).items():
        if rank > top_rank:
            raise AdapterRankTooLarge(
                f"together the adapters have rank {rank} in {name}; the largest sum that is served here is {top_rank}.",
                field="adapters",
            )


def compose(adapters: Sequence[Weighted], layouts: Layouts) -> Weighted:
    """One adapter and its strength that add what all of these do, in the order that is given; touches no slot.

    Raises ``AdapterNotFinite`` if a strength takes a weight out of the range of its dtype.
    """
    for adapter, scale in adapters:
        adapter.check_strength(scale)
    return adapters[0] if len(adapters) == 1 else (_side_by_side(adapters, layouts), 1.0)


def summed_ranks(layouts: Sequence[Layout]) -> dict[str, int]:
    """By layer, the rank that these have together."""
    sums: dict[str, int] = {}
    for layout in layouts:
        for name, place in layout.places.items():
            sums[name] = sums.get(name, 0) + place.rank
    return sums


def _side_by_side(adapters: Sequence[Weighted], layouts: Layouts) -> Packed:
    layout = layouts.of(tuple(sorted(summed_ranks([adapter.layout for adapter, _ in adapters]).items())))
    flat = torch.zeros(layout.size, dtype=adapters[0][0].flat.dtype)
    reached = dict.fromkeys(layout.places, 0)
    for adapter, scale in adapters:
        for name, (own_down, own_up) in adapter.views.items():
            rank = adapter.layout.places[name].rank
            down, up = part_of(flat, layout.places[name], reached[name], rank)
            down.copy_(own_down)
            up.copy_(own_up).mul_(scale)
            reached[name] += rank
    return packed("", layout, flat)
