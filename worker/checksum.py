"""A cheap checksum of weights, over their bits, on whatever device they lie."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from worker.layout import CHUNK_BYTES

Sums = npt.NDArray[np.int64]
"""One whole number for each chunk: the sum of its 64-bit words, modulo 2^64."""


@dataclass(frozen=True)
class Expected:
    """What an adapter's chunks must add up to wherever they lie, and the fingerprint that then stands for them."""

    sums: Sums
    fingerprint: str


def sums_of(flat: torch.Tensor) -> Sums:
    """The sums of a contiguous tensor of whole chunks; one pass over it, one small transfer from the device.

    Every changed bit changes a sum, and so does whatever lies in another chunk than it should. Exchanges within one
    chunk go unseen: a copy that works on the machine's words does not make them.
    """
    words = flat.view(torch.int64).view(-1, CHUNK_BYTES // 8)
    found: Sums = words.sum(1).cpu().numpy()
    return found


def fingerprint_of(layers: Sequence[tuple[str, int]], sums: Sums) -> str:
    """64 hex digits that stand for what a slot holds: the layers in use with their ranks, and the sums of each."""
    digest = hashlib.sha256(json.dumps([list(layer) for layer in layers], separators=(",", ":")).encode())
    digest.update(np.ascontiguousarray(sums, dtype="<i8").tobytes())
    return digest.hexdigest()


NOTHING = fingerprint_of((), np.empty(0, np.int64))
"""The fingerprint of a slot of which no layer is in use."""
