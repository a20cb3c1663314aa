"""Where each layer's halves lie in one flat tensor: the form that prepared adapters and the slot share. No torch.

Every half begins at a multiple of ``CHUNK_BYTES``, the unit of the checksum, so a half has the same sums wherever it
lies, and zeros after it change nothing but add chunks of sum zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from shared.adapter_layers import LayerShape

CHUNK_BYTES = 512

Ranks = tuple[tuple[str, int], ...]
"""Layers with the rank that each has, sorted by name."""


@dataclass(frozen=True)
class Half:
    """A or B of one layer: ``begin`` in elements from the start of the flat tensor, and its shape."""

    begin: int
    shape: tuple[int, ...]

    @cached_property
    def count(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Place:
    """Both halves of one layer. ``up`` has the rank first where ``rank_first`` says so, else last."""

    rank: int
    down: Half
    up: Half
    rank_first: bool


@dataclass(frozen=True)
class Layout:
    """``size``: elements in all, whole chunks."""

    places: Mapping[str, Place]
    size: int


@dataclass(frozen=True)
class Layouts:
    """Makes layouts for one base model.

    ``layers``: what the slot covers. ``item_bytes``: size of one element. ``rank_first``: components whose B is kept
    as rank x outputs, so that further ranks follow it in memory; B of the others is outputs x rank, as PEFT has it.
    """

    layers: Mapping[str, LayerShape]
    item_bytes: int
    rank_first: frozenset[str] = frozenset()

    @property
    def chunk(self) -> int:
        """Elements of one chunk."""
        return CHUNK_BYTES // self.item_bytes

    def of(self, ranks: Ranks) -> Layout:
        """Those layers side by side, in this order."""
        places, reached = {}, 0
        for name, rank in ranks:
            shape = self.layers[name]
            rank_first = name.partition(".")[0] in self.rank_first
            down = Half(reached, (rank, shape.inputs, *(shape.kernel or ())))
            up = Half(self._after(down), _up_shape(shape, rank, rank_first))
            reached = self._after(up)
            places[name] = Place(rank, down, up, rank_first)
        return Layout(places, reached)

    def chunks_of(self, half: Half) -> slice:
        """The chunks in which it lies; nothing else does."""
        return slice(half.begin // self.chunk, self._after(half) // self.chunk)

    def chunks_in(self, own: Layout, other: Layout) -> npt.NDArray[np.intp]:
        """For each chunk of ``own`` the one of ``other``, maybe of a larger rank, that holds the same."""
        found = np.empty(own.size // self.chunk, np.intp)
        for name, place in own.places.items():
            there = other.places[name]
            for half, half_there in ((place.down, there.down), (place.up, there.up)):
                chunks = self.chunks_of(half)
                found[chunks] = half_there.begin // self.chunk + np.arange(chunks.stop - chunks.start)
        return found

    def _after(self, half: Half) -> int:
        end = half.begin + half.count
        return end + -end % self.chunk


def halves(layout: Layout) -> Iterator[tuple[str, Half]]:
    """All of them with the name of their layer, in the order in which they lie."""
    for name, place in layout.places.items():
        yield name, place.down
        yield name, place.up


def _up_shape(shape: LayerShape, rank: int, rank_first: bool) -> tuple[int, ...]:
    if rank_first:
        return (rank, shape.outputs)
    return (shape.outputs, rank) if shape.kernel is None else (shape.outputs, rank, 1, 1)
