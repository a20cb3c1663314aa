"""The form that prepared adapters are kept in: each layer at its own rank, strengths folded in."""

from __future__ import annotations

from dataclasses import dataclass

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
