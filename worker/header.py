"""The header of a safetensors file, read without torch and in bounded memory.

Format (from the safetensors specification): eight bytes little-endian length, that many bytes of JSON mapping each
tensor to dtype, shape and byte range, then the data. ``__metadata__`` maps text to text.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO

from shared.errors import AdapterUnreadable

MAX_HEADER_BYTES = 8 << 20
"""Far above any real adapter's header (a FLUX DoRA with text encoders has a quarter of a megabyte)."""

DTYPE_BYTES = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64"), 8),
}

_LENGTH_BYTES = 8
_NOT_SAFETENSORS = (
    (b"version https://git-lfs", "it is a Git LFS pointer; fetch the file itself (git lfs pull)"),
    (b"<", "it is a web page (HTML or XML); download the file itself"),
    (b"PK\x03\x04", "it is a pickle (.pt, .bin, .ckpt), which is never loaded; convert it to safetensors"),
    (b"\x80\x02", "it is a pickle (.pt, .bin, .ckpt), which is never loaded; convert it to safetensors"),
    (b"\x80\x04", "it is a pickle (.pt, .bin, .ckpt), which is never loaded; convert it to safetensors"),
    (b"GGUF", "it is a GGUF file; an adapter must be safetensors"),
)


@dataclass(frozen=True)
class TensorEntry:
    """One tensor: its dtype as written, its shape, its byte range within the data."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class Header:
    """All tensors by name, in file order, and the file's own metadata."""

    tensors: dict[str, TensorEntry]
    metadata: dict[str, str]


def read_header(file: BinaryIO, size_bytes: int) -> Header:
    """The header of the open file, whose tensors fill the rest of its ``size_bytes`` exactly.

    Raises ``AdapterUnreadable`` with one sentence; reads at most ``MAX_HEADER_BYTES``.
    """
    start = file.read(_LENGTH_BYTES + 24)
    length = header_length(start, size_bytes)
    file.seek(_LENGTH_BYTES)
    return parse_header(file.read(length), size_bytes - _LENGTH_BYTES - length)


def header_length(start: bytes, size_bytes: int) -> int:
    """Length of the JSON in bytes, from the file's first bytes (32 are enough)."""
    if size_bytes == 0:
        raise AdapterUnreadable("the file is empty (0 bytes).")
    looks = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    for beginning, sentence in _NOT_SAFETENSORS:
        if looks.startswith(beginning) and not _plausible(start, size_bytes):
            raise AdapterUnreadable(f"not a safetensors file: {sentence}.")
    if size_bytes < _LENGTH_BYTES + 2 or len(start) < _LENGTH_BYTES:
        raise AdapterUnreadable(f"not a safetensors file: {size_bytes} bytes are too few for a header.")
    length = int(struct.unpack("<Q", start[:_LENGTH_BYTES])[0])
    if length > MAX_HEADER_BYTES:
        raise AdapterUnreadable(
            f"not a usable safetensors file: it claims a header of {length} bytes, more than the {MAX_HEADER_BYTES} "
            "that are read."
        )
    if length + _LENGTH_BYTES > size_bytes:
        raise AdapterUnreadable(
            f"the file is cut off: its header alone has {length} bytes, but the file has {size_bytes}."
        )
    return length


def _plausible(start: bytes, size_bytes: int) -> bool:
    # A length byte may happen to be "<"; then a brace follows the eight bytes.
    if len(start) <= _LENGTH_BYTES or start[_LENGTH_BYTES : _LENGTH_BYTES + 1] != b"{":
        return False
    return int(struct.unpack("<Q", start[:_LENGTH_BYTES])[0]) + _LENGTH_BYTES <= size_bytes


def parse_header(raw: bytes, data_bytes: int) -> Header:
    """The header from its JSON, checked against the ``data_bytes`` that follow it."""
    try:
        parsed = json.loads(raw, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise AdapterUnreadable("not a safetensors file: its header is not valid JSON.") from None
    if not isinstance(parsed, dict):
        raise AdapterUnreadable("not a safetensors file: its header is not a JSON object.")
    metadata = parsed.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise AdapterUnreadable("not a safetensors file: its __metadata__ does not map text to text.")
    tensors = {name: _entry(name, value) for name, value in parsed.items()}
    _check_layout(tensors.values(), data_bytes)
    return Header(tensors, metadata)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _entry(name: str, value: object) -> TensorEntry:
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise _invalid(name)
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or not _counts(shape) or not _counts(offsets) or len(offsets) != 2:
        raise _invalid(name)
    begin, end = offsets
    if dtype not in DTYPE_BYTES:
        raise AdapterUnreadable(f"the dtype {dtype[:20]!r} of {name[:80]!r} is not known.")
    if end - begin != math.prod(shape) * DTYPE_BYTES[dtype]:
        raise AdapterUnreadable(f"the byte range of {name[:80]!r} does not fit its shape {shape}.")
    return TensorEntry(dtype, tuple(shape), begin, end)


def _counts(value: object) -> bool:
    return isinstance(value, list) and all(type(number) is int and number >= 0 for number in value)


def _invalid(name: str) -> AdapterUnreadable:
    return AdapterUnreadable(f"not a safetensors file: its entry for {name[:80]!r} is not valid.")


def _check_layout(entries: Iterable[TensorEntry], data_bytes: int) -> None:
    reached = 0
    for entry in sorted(entries, key=lambda entry: (entry.begin, entry.end)):
        if entry.begin != reached:
            raise AdapterUnreadable("the tensors overlap or leave gaps, so the file is damaged.")
        reached = entry.end
    if reached > data_bytes:
        raise AdapterUnreadable(f"the file is cut off: {data_bytes} of {reached} bytes of weights are there.")
    if reached < data_bytes:
        raise AdapterUnreadable(f"{data_bytes - reached} bytes follow the last tensor, so the file is damaged.")
