"""Safetensors files without torch: a header with one tensor per name, and data of any bytes."""

from __future__ import annotations

import json
import struct
from pathlib import Path


def header(size_bytes: int, name: str = "transformer.x.lora_A.weight") -> bytes:
    """The header of a file with one tensor of so many bytes."""
    told = {name: {"dtype": "U8", "shape": [size_bytes], "data_offsets": [0, size_bytes]}}
    text = json.dumps(told).encode()
    return struct.pack("<Q", len(text)) + text


def small(fill: bytes = b"\1", size_bytes: int = 1000) -> bytes:
    """A whole file."""
    return header(size_bytes) + fill * size_bytes


def sparse(path: Path, size_bytes: int) -> Path:
    """A file whose data takes no room on disk."""
    with path.open("wb") as file:
        file.write(header(size_bytes))
        file.truncate(file.tell() + size_bytes)
    return path
