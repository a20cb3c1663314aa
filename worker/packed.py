"""Prepared adapters in the form that a swap copies from: one flat tensor, each layer at its own rank.

An adapter is packed once, after its conversion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch

from shared.errors import AdapterNotFinite
from worker.checksum import Expected, fingerprint_of, sums_of
from worker.compact import CompactAdapter
from worker.layout import Half, Layout, Layouts, Place, Ranks
from worker.strength import Parts, multiply

Views = Mapping[str, tuple[torch.Tensor, torch.Tensor]]
"""A and B of each layer, in the memory of one flat tensor."""

MOST_SUMS = 8
"""Strengths of one adapter whose sums are kept."""


@dataclass(frozen=True)
class Packed:
    """``sha256``: of its file. ``flat``: on the CPU, zero between halves. ``largest_up``: largest value of any B."""

    sha256: str
    layout: Layout
    flat: torch.Tensor
    largest_up: float
    _expected: dict[float, Expected] = field(default_factory=dict, compare=False, repr=False)

    @property
    def size_bytes(self) -> int:
        """What it occupies in memory."""
        return self.flat.nbytes

    @property
    def rank(self) -> int:
        """Largest rank over the layers."""
        return max((place.rank for place in self.layout.places.values()), default=0)

    @cached_property
    def ranks(self) -> Ranks:
        """Its layers with their ranks, sorted by name."""
        return ranks_of(self.layout)

    @cached_property
    def views(self) -> Views:
        """Both halves of each layer."""
        return views_of(self.flat, self.layout)

    @cached_property
    def halves(self) -> tuple[Parts, Parts]:
        """All A and all B."""
        return halves_of(self.flat, self.layout)

    def check_strength(self, scale: float) -> None:
        """Raise ``AdapterNotFinite`` if this strength takes a weight out of the range of its dtype."""
        # Rounding is monotonic, so the largest weight tells for all.
        largest = torch.tensor(self.largest_up, dtype=torch.float32).mul(scale).to(self.flat.dtype)
        if not torch.isfinite(largest):
            raise AdapterNotFinite("at this strength the adapter's weights are no longer finite.", field="adapters")

    def expected(self, scale: float = 1.0) -> Expected:
        """What its chunks add up to once B is multiplied by ``scale``: computed here, not where it is written."""
        if scale not in self._expected:
            if len(self._expected) >= MOST_SUMS:
                self._expected.pop(next(iter(self._expected)))
            sums = sums_of(self._scaled(scale))
            self._expected[scale] = Expected(sums, fingerprint_of(self.ranks, sums))
        return self._expected[scale]

    def _scaled(self, scale: float) -> torch.Tensor:
        if scale == 1.0:
            return self.flat
        scaled = self.flat.clone()
        ups = halves_of(scaled, self.layout)[1]
        multiply(ups, scale, ups)
        return scaled


def pack(adapter: CompactAdapter, layouts: Layouts, dtype: torch.dtype, pinned: bool = False) -> Packed:
    """The adapter's layers in one flat tensor; ``pinned``: in memory that the device can copy from by itself."""
    layout = layouts.of(tuple(sorted((name, layer.rank) for name, layer in adapter.layers.items())))
    flat = torch.zeros(layout.size, dtype=dtype, pin_memory=pinned)
    for name, place in layout.places.items():
        layer = adapter.layers[name]
        view_of(flat, place.down).copy_(layer.down)
        up = view_of(flat, place.up)
        up.copy_(layer.up.flatten(1).t() if place.rank_first else layer.up)
    return packed(adapter.sha256, layout, flat)


def packed(sha256: str, layout: Layout, flat: torch.Tensor) -> Packed:
    """What lies in ``flat``, measured."""
    ups = [view_of(flat, place.up) for place in layout.places.values()]
    largest = torch.stack([up.abs().max() for up in ups]).max().item() if ups else 0.0
    return Packed(sha256, layout, flat, float(largest))


def ranks_of(layout: Layout) -> Ranks:
    """The layers of a layout with their ranks, in its order."""
    return tuple((name, place.rank) for name, place in layout.places.items())


def view_of(flat: torch.Tensor, half: Half) -> torch.Tensor:
    """The half as a tensor of its shape, in the memory of ``flat``."""
    return flat[half.begin : half.begin + half.count].view(half.shape)


def part_of(flat: torch.Tensor, place: Place, begin: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Both halves of a layer, of which only the ranks from ``begin``, so many."""
    down, up = view_of(flat, place.down), view_of(flat, place.up)
    return down.narrow(0, begin, rank), up.narrow(0 if place.rank_first else 1, begin, rank)


def views_of(flat: torch.Tensor, layout: Layout) -> Views:
    """Both halves of every layer."""
    return {name: (view_of(flat, place.down), view_of(flat, place.up)) for name, place in layout.places.items()}


def halves_of(flat: torch.Tensor, layout: Layout) -> tuple[Parts, Parts]:
    """The A and the B of every layer, in the order of the layout."""
    places = layout.places.values()
    return [view_of(flat, place.down) for place in places], [view_of(flat, place.up) for place in places]
