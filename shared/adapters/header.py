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

from shared.adapters.source import ReadRange
from shared.errors import AdapterUnreadable

MAX_HEADER_BYTES = 8 << 20
"""Far above any real adapter's header (a FLUX DoRA with text encoders has a quarter of a megabyte)."""

FIRST_READ_BYTES = 64 << 10
"""Asked for at once, so that most headers need one or two reads."""

DTYPE_BITS = {
    "F4": 4,
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}

_LENGTH_BYTES = 8
_LOOKS_AT_BYTES = 32
_MOST_DIMENSIONS = 8
_PICKLE = "it is a pickle (.pt, .bin, .ckpt), which is never loaded; convert it to safetensors"
_NOT_SAFETENSORS = (
    (b"version https://git-lfs", "git_lfs", "it is a Git LFS pointer; fetch the file itself (git lfs pull)"),
    (b"<", "web_page", "it is a web page (HTML or XML); download the file itself"),
    (b"PK\x03\x04", "pickle", _PICKLE),
    *((bytes((0x80, protocol)), "pickle", _PICKLE) for protocol in range(2, 6)),
    (b"GGUF", "gguf", "it is a GGUF file; an adapter must be safetensors"),
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


def read_header(read_range: ReadRange, size_bytes: int) -> Header:
    """The header of a file of ``size_bytes``, whose tensors fill the rest of it exactly.

    Reads at most ``MAX_HEADER_BYTES`` and a little, in one or two ranges, never the weights. Raises
    ``AdapterUnreadable`` with one sentence, and whatever ``read_range`` raises.
    """
    start = _read(read_range, 0, min(size_bytes, FIRST_READ_BYTES))
    length = header_length(start[:_LOOKS_AT_BYTES], size_bytes)
    end = _LENGTH_BYTES + length
    if end > len(start):
        start += _read(read_range, len(start), end - len(start))
    return parse_header(start[_LENGTH_BYTES:end], size_bytes - end)


def _read(read_range: ReadRange, offset: int, length: int) -> bytes:
    if length == 0:
        return b""
    found = read_range(offset, length)
    if len(found) != length:
        raise AdapterUnreadable("the file is cut off: it has fewer bytes than were announced.", reason="cut_off")
    return found


def header_length(start: bytes, size_bytes: int) -> int:
    """Length of the JSON in bytes, from the file's first bytes (32 are enough)."""
    if size_bytes == 0:
        raise AdapterUnreadable("the file is empty (0 bytes).", reason="empty")
    looks = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    for beginning, reason, sentence in _NOT_SAFETENSORS:
        if looks.startswith(beginning) and not _plausible(start, size_bytes):
            raise AdapterUnreadable(f"not a safetensors file: {sentence}.", reason=reason)
    if size_bytes < _LENGTH_BYTES + 2 or len(start) < _LENGTH_BYTES:
        raise AdapterUnreadable(
            f"not a safetensors file: {size_bytes} bytes are too few for a header.", reason="cut_off"
        )
    length = int(struct.unpack("<Q", start[:_LENGTH_BYTES])[0])
    if length > MAX_HEADER_BYTES:
        raise AdapterUnreadable(
            f"not a usable safetensors file: it claims a header of {length} bytes, more than the {MAX_HEADER_BYTES} "
            "that are read.",
            reason="header_too_long",
        )
    if length + _LENGTH_BYTES > size_bytes:
        raise AdapterUnreadable(
            f"the file is cut off: its header alone has {length} bytes, but the file has {size_bytes}.",
            reason="cut_off",
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
        parsed = json.loads(raw.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise _damaged("its header is not valid JSON") from None
    if not isinstance(parsed, dict):
        raise _damaged("its header is not a JSON object")
    metadata = parsed.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _damaged("its __metadata__ does not map text to text")
    tensors = {name: _entry(name, value) for name, value in parsed.items()}
    _check_layout(tensors.values(), data_bytes)
    return Header(tensors, metadata)


def shown(name: str, most: int = 100) -> str:
    """A name from a file in one short line of ASCII."""
    return name[:most].encode("unicode_escape").decode("ascii")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _entry(name: str, value: object) -> TensorEntry:
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise _damaged(f"its entry for {shown(name)} is not valid")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    # Few dimensions, or their product would be a number of millions of digits.
    if not isinstance(dtype, str) or not _counts(shape, _MOST_DIMENSIONS) or not _counts(offsets, 2):
        raise _damaged(f"its entry for {shown(name)} is not valid")
    if len(offsets) != 2:
        raise _damaged(f"its entry for {shown(name)} is not valid")
    begin, end = offsets
    if dtype not in DTYPE_BITS:
        raise _damaged(f"the dtype {shown(dtype, 20)} of {shown(name)} is not known")
    if (end - begin) * 8 != math.prod(shape) * DTYPE_BITS[dtype]:
        raise _damaged(f"the byte range of {shown(name)} does not fit its shape {shape}")
    return TensorEntry(dtype, tuple(shape), begin, end)


def _counts(value: object, most: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= most
        and all(type(number) is int and 0 <= number < 1 << 63 for number in value)
    )


def _damaged(what: str) -> AdapterUnreadable:
    return AdapterUnreadable(f"not a safetensors file: {what}.", reason="damaged")


def _check_layout(entries: Iterable[TensorEntry], data_bytes: int) -> None:
    reached = 0
    for entry in sorted(entries, key=lambda entry: (entry.begin, entry.end)):
        if entry.begin != reached:
            raise _damaged("the tensors overlap or leave gaps")
        reached = entry.end
    if reached > data_bytes:
        raise AdapterUnreadable(
            f"the file is cut off: {data_bytes} of {reached} bytes of weights are there.", reason="cut_off"
        )
    if reached < data_bytes:
        raise AdapterUnreadable(
            f"{data_bytes - reached} bytes follow the last tensor, so the file is damaged.", reason="trailing_bytes"
        )
