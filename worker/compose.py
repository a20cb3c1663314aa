"""What the slot must hold for a job: its adapters with their strengths, side by side along the rank."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from shared.errors import AdapterNotFinite, AdapterRankTooLarge
from worker.compact import CompactAdapter, CompactLayer

Weighted = tuple[CompactAdapter, float]
"""An adapter and its strength."""


def in_order(adapters: Sequence[Weighted]) -> list[Weighted]:
    """Sorted by hash, then strength, so that the order within a request changes nothing."""
    return sorted(adapters, key=lambda weighted: (weighted[0].sha256, weighted[1]))


def check_ranks(adapters: Sequence[Weighted], top_rank: int) -> None:
    """Raise ``AdapterRankTooLarge`` if the ranks of one layer sum to more than the slot takes."""
    sums: dict[str, int] = {}
    for adapter, _ in adapters:
        for name, layer in adapter.layers.items():
            sums[name] = sums.get(name, 0) + layer.rank
    for name, rank in sums.items():
        if rank > top_rank:
            raise AdapterRankTooLarge(
                f"together the adapters have rank {rank} in {name}; the largest sum that is served here is {top_rank}.",
                field="adapters",
            )


def compose(adapters: Sequence[Weighted]) -> dict[str, CompactLayer]:
    """One layer each for all layers that any of the adapters changes; touches no slot.

    Raises ``AdapterNotFinite`` if a strength takes a weight out of the range of its dtype.
    """
    ordered = in_order(adapters)
    names = sorted({name for adapter, _ in ordered for name in adapter.layers})
    return {name: _layer(name, [(a.layers[name], scale) for a, scale in ordered if name in a.layers]) for name in names}


def _layer(name: str, parts: list[tuple[CompactLayer, float]]) -> CompactLayer:
    ups = [_scaled(part.up, scale) for part, scale in parts]
    up = ups[0] if len(ups) == 1 else torch.cat(ups, dim=1)
    down = parts[0][0].down if len(parts) == 1 else torch.cat([part.down for part, _ in parts], dim=0)
    if not torch.isfinite(up).all():
        raise AdapterNotFinite(f"at this strength the weights of {name} are no longer finite.", field="adapters")
    return CompactLayer(down, up)


def _scaled(up: torch.Tensor, scale: float) -> torch.Tensor:
    return up if scale == 1.0 else (up.to(torch.float32) * scale).to(up.dtype)
