"""Cheap checksums of matrices, over their bits, on whatever device they lie."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

import torch

_BITS = {torch.float32: torch.int32, torch.bfloat16: torch.int16, torch.float16: torch.int16}

Sums = tuple[int, ...]
"""Two sums for each half of a layer: bits weighted by row, and by column."""


def sums_of(matrices: Sequence[torch.Tensor]) -> Sums:
    """Two whole numbers per matrix (rows x columns); one transfer from the device for all of them.

    Every changed bit changes both; so do exchanged rows or columns, which a plain sum would miss.
    """
    if not matrices:
        return ()
    found: list[int] = torch.stack([_sums(matrix) for matrix in matrices]).flatten().tolist()
    return tuple(found)


def _sums(matrix: torch.Tensor) -> torch.Tensor:
    bits = matrix.view(_BITS[matrix.dtype])
    by_row, by_column = bits.sum(1, dtype=torch.int64), bits.sum(0, dtype=torch.int64)
    return torch.stack([(part * _weights(part)).sum() for part in (by_row, by_column)])


def _weights(part: torch.Tensor) -> torch.Tensor:
    # Odd, so a difference in one place never vanishes in 64-bit arithmetic.
    return 2 * torch.arange(part.numel(), dtype=torch.int64, device=part.device) + 1


def fingerprint_of(layers: Mapping[str, tuple[int, Sums]]) -> str:
    """64 hex digits that stand for what a slot holds: each used layer's name, rank and sums."""
    listed = [[name, rank, *sums] for name, (rank, sums) in sorted(layers.items())]
    return hashlib.sha256(json.dumps(listed, separators=(",", ":")).encode()).hexdigest()
