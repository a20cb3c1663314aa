"""Adapter files as bytes, written without any library."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping

from shared.adapters.header import DTYPE_BITS

Shapes = Mapping[str, tuple[int, ...]]

TINY_LAYER = "transformer.transformer_blocks.0.attn.to_q"
"""A layer of tiny-flux."""
WIDTH = 160
"""Its inputs and outputs."""


Tensors = Mapping[str, tuple[str, tuple[int, ...]]]
"""Dtype and shape by name."""


def adapter_bytes(shapes: Shapes, metadata: Mapping[str, str] | None = None, dtype: str = "F32") -> bytes:
    """A safetensors file of these tensors, all zero."""
    return packed({name: (dtype, shape) for name, shape in shapes.items()}, metadata)


def packed(tensors: Tensors, metadata: Mapping[str, str] | None = None) -> bytes:
    """A safetensors file of tensors of several dtypes, all zero."""
    raw, data_bytes = header_bytes(tensors, metadata)
    return struct.pack("<Q", len(raw)) + raw + bytes(data_bytes)


def header_bytes(tensors: Tensors, metadata: Mapping[str, str] | None = None) -> tuple[bytes, int]:
    """The JSON of such a file, and how many bytes of weights follow it."""
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    reached = 0
    for name, (dtype, shape) in tensors.items():
        end = reached + math.prod(shape) * DTYPE_BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [reached, end]}
        reached = end
    return json.dumps(header).encode(), reached


def lora(layer: str = TINY_LAYER, rank: int = 4, width: int = WIDTH) -> dict[str, tuple[int, ...]]:
    """A and B for one layer in the names of diffusers."""
    return {f"{layer}.lora_A.weight": (rank, width), f"{layer}.lora_B.weight": (width, rank)}


SKETCH = adapter_bytes(lora())
"""A file that fits tiny-flux."""
