"""The form that prepared adapters are kept in: each layer at its own rank, strengths folded in."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch


@dataclass(frozen=True)
class CompactLayer:
    """``down``: A, rank x inputs. ``up``: B, outputs x rank, already multiplied with alpha / rank. Slot dtype, CPU."""

    down: torch.Tensor
    up: torch.Tensor

    @property
    def rank(self) -> int:
        """Rank of this layer."""
        return self.down.shape[0]


@dataclass(frozen=True)
class CompactAdapter:
    """One adapter file, converted; layers by their names in the base model."""

    sha256: str
    layers: dict[str, CompactLayer]

    @property
    def rank(self) -> int:
        """Largest rank over the layers."""
        return max(layer.rank for layer in self.layers.values())

    @property
    def size_bytes(self) -> int:
        """What it occupies in memory."""
        return sum(half.nbytes for layer in self.layers.values() for half in (layer.down, layer.up))


class Kept(Protocol):
    """An adapter in whatever form."""

    @property
    def sha256(self) -> str:
        """Of its file."""

    @property
    def size_bytes(self) -> int:
        """What it occupies in memory."""


K = TypeVar("K", bound=Kept)


class CompactCache(Generic[K]):
    """Converted adapters by the SHA-256 of their file; the least recently used go first when they exceed the cap."""

    def __init__(self, cap_bytes: int) -> None:
        self._cap_bytes = cap_bytes
        self._size_bytes = 0
        self._kept: OrderedDict[str, K] = OrderedDict()

    def get(self, sha256: str) -> K | None:
        """The adapter of this file, if it is still here."""
        found = self._kept.get(sha256)
        if found is not None:
            self._kept.move_to_end(sha256)
        return found

    def put(self, adapter: K) -> None:
        """Keep it, unless it alone exceeds the cap."""
        if adapter.sha256 in self._kept or adapter.size_bytes > self._cap_bytes:
            return
        self._kept[adapter.sha256] = adapter
        self._size_bytes += adapter.size_bytes
        while self._size_bytes > self._cap_bytes:
            _, dropped = self._kept.popitem(last=False)
            self._size_bytes -= dropped.size_bytes
