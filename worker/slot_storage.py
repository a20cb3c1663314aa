"""The memory of the slot: one flat tensor for the top rank, of which the beginning is in use.

Components that run as they are get each layer at its own rank. Padding with zeros would be simpler, but it moves the
last bits: a matrix product of another width sums in another order (seen on the CPU in float32 with MKL). Compiled
components need fixed shapes: all of their layers are there, at the smallest rank tier that takes the adapter, and
what the adapter leaves alone is zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from shared.families.family import component_of
from worker.checksum import Sums, sums_of
from worker.layout import Layout, Layouts, Ranks
from worker.packed import Packed, Views, halves_of, part_of, views_of
from worker.strength import Parts, multiply

MOST_ARRANGEMENTS = 16
MOST_FITS = 16
"""Kinds of adapters that an arrangement remembers."""


@dataclass(frozen=True)
class Fit:
    """Where adapters of the same layers and ranks lie in an arrangement.

    ``downs``, ``ups``: the memory of each layer's A and B that they fill. ``chunks``: for each chunk of the adapter.
    """

    downs: Parts
    ups: Parts
    chunks: npt.NDArray[np.intp]


@dataclass(frozen=True)
class Arrangement:
    """Which layers take part and at which rank, and the memory that multiplies."""

    ranks: Ranks
    layout: Layout
    views: Views
    fits: dict[Ranks, Fit] = field(default_factory=dict, compare=False, repr=False)


class Storage:
    """``tiers``: ranks that compiled components have, ascending; the last one is the largest rank for all."""

    def __init__(self, layouts: Layouts, tiers: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> None:
        self.layouts = layouts
        self.tiers = tiers
        self._names = {
            component: [name for name in layouts.layers if component_of(name) == component]
            for component in layouts.rank_first
        }
        whole = layouts.of(tuple((name, tiers[-1]) for name in layouts.layers))
        self.flat = torch.zeros(whole.size, dtype=dtype, device=device)
        self._arrangements: dict[tuple[Ranks, Ranks], Arrangement] = {}
        self._there: tuple[Arrangement, dict[str, int]] | None = None

    def arrange(self, ranks: Ranks) -> Arrangement:
        """How the layers lie for an adapter of these ranks."""
        highest: dict[str, int] = {}
        others = []
        for name, rank in ranks:
            component = component_of(name)
            if component in self._names:
                highest[component] = max(rank, highest.get(component, 0))
            else:
                others.append((name, rank))
        key = (tuple((component, self.tier_of(rank)) for component, rank in highest.items()), tuple(others))
        if key not in self._arrangements:
            if len(self._arrangements) >= MOST_ARRANGEMENTS:
                self._arrangements.pop(next(iter(self._arrangements)))
            # Those that are compiled first, so that what the others hold does not move them.
            compiled = [(name, tier) for component, tier in key[0] for name in self._names[component]]
            self._arrangements[key] = self._arrangement((*compiled, *others))
        return self._arrangements[key]

    def tier_of(self, rank: int) -> int:
        """The smallest tier that takes this rank."""
        return min(tier for tier in self.tiers if tier >= rank)

    def fit(self, arrangement: Arrangement, adapter: Packed) -> Fit:
        """Where the adapter lies; worked out once for all of its kind."""
        found = arrangement.fits.get(adapter.ranks)
        if found is None:
            if len(arrangement.fits) >= MOST_FITS:
                arrangement.fits.pop(next(iter(arrangement.fits)))
            found = arrangement.fits[adapter.ranks] = self._fit(arrangement, adapter)
        return found

    def copy(self, arrangement: Arrangement, adapter: Packed, scale: float) -> None:
        """Copy the adapter in at this strength, and zero what else takes part."""
        before, self._there = self._there, None
        fit = self.fit(arrangement, adapter)
        source = adapter.flat.to(self.flat.device, non_blocking=True)
        if arrangement.ranks == adapter.ranks:
            self.flat[: adapter.layout.size].copy_(source)
            multiply(fit.ups, scale, fit.ups)
        else:
            self._clear_around(arrangement, adapter, before)
            downs, ups = adapter.halves if source is adapter.flat else halves_of(source, adapter.layout)
            torch._foreach_copy_(fit.downs, downs)
            multiply(ups, scale, fit.ups)
        self._there = (arrangement, dict(adapter.ranks))

    def sums(self, arrangement: Arrangement) -> Sums:
        """The sums of all that takes part, read from the memory that multiplies."""
        return sums_of(self.flat[: arrangement.layout.size])

    def zero(self) -> None:
        """Zero all of it, used or not."""
        self._there = None
        self.flat.zero_()

    def is_zero(self) -> bool:
        """Whether all of it is."""
        return not self.flat.any().item()

    def _arrangement(self, ranks: Ranks) -> Arrangement:
        layout = self.layouts.of(ranks)
        return Arrangement(ranks, layout, views_of(self.flat, layout))

    def _fit(self, arrangement: Arrangement, adapter: Packed) -> Fit:
        downs, ups = [], []
        for name, rank in adapter.ranks:
            place = arrangement.layout.places[name]
            down, up = arrangement.views[name] if place.rank == rank else part_of(self.flat, place, 0, rank)
            downs.append(down)
            ups.append(up)
        return Fit(downs, ups, self.layouts.chunks_in(adapter.layout, arrangement.layout))

    def _clear_around(
        self, arrangement: Arrangement, adapter: Packed, before: tuple[Arrangement, dict[str, int]] | None
    ) -> None:
        if before is None or before[0] is not arrangement:
            self.flat[: arrangement.layout.size].zero_()
            return
        now = dict(adapter.ranks)
        stale: list[torch.Tensor] = []
        for name, rank in before[1].items():
            if (kept := now.get(name, 0)) < rank:
                stale += part_of(self.flat, arrangement.layout.places[name], kept, rank - kept)
        if stale:
            torch._foreach_zero_(stale)
