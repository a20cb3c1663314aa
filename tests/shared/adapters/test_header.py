from __future__ import annotations

import contextlib
import json
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.adapters.header import Header, read_header
from shared.errors import AdapterUnreadable

ENTRY = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}


def file_of(header: object, data_bytes: int = 24) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + bytes(data_bytes)


def read(content: bytes) -> Header:
    return read_header(lambda offset, length: content[offset : offset + length], len(content))


def test_reads_names_shapes_and_metadata() -> None:
    header = read(file_of({"__metadata__": {"format": "pt"}, "a": ENTRY}))
    assert header.metadata == {"format": "pt"}
    assert header.tensors["a"].shape == (2, 3)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "0 bytes"),
        (b"\x01\x02", "too few"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n", "Git LFS pointer"),
        (b"PK\x03\x04" + bytes(60), "pickle"),
        (b"\x80\x02}q\x00" + bytes(60), "pickle"),
        (b"GGUF" + bytes(60), "GGUF"),
        (struct.pack("<Q", 1 << 40) + b"{}", "1099511627776 bytes"),
        (struct.pack("<Q", 1000) + b"{}", "cut off"),
        (file_of({"a": ENTRY})[:-1], "cut off"),
        (file_of({"a": ENTRY}, 25), "1 bytes follow"),
        (file_of(b"not json at all!"), "not valid JSON"),
        (file_of(b'{"a":' * 100_000), "not valid JSON"),
        (file_of(b'{"__metadata__":{},"__metadata__":{}}', 0), "not valid JSON"),
        (file_of([1]), "not a JSON object"),
        (file_of({"__metadata__": {"n": 1}}, 0), "does not map text to text"),
        (file_of({"a": {"dtype": "F32"}}), "is not valid"),
        (file_of({"a": {**ENTRY, "shape": [-2, -3]}}), "is not valid"),
        (file_of({"a": {**ENTRY, "shape": [2, 3.0]}}), "is not valid"),
        (file_of({"a": {**ENTRY, "dtype": "F31"}}), "not known"),
        (file_of({"a": {**ENTRY, "shape": [2, 4]}}), "does not fit its shape"),
        (file_of({"a": {**ENTRY, "shape": [1 << 62, 1 << 62]}}), "does not fit its shape"),
        (file_of({"a": ENTRY, "b": ENTRY}), "overlap"),
    ],
)
def test_refuses_what_is_not_whole(content: bytes, words: str) -> None:
    with pytest.raises(AdapterUnreadable, match=words) as caught:
        read(content)
    assert "\n" not in caught.value.message


def test_a_length_that_looks_like_a_web_page_is_still_a_length() -> None:
    padded = json.dumps({"a": ENTRY}).encode().ljust(ord("<"))
    assert read(file_of(padded)).tensors


def test_a_huge_claim_costs_no_memory() -> None:
    content = struct.pack("<Q", (8 << 20) + 1) + bytes(64)
    tracemalloc.start()
    try:
        with pytest.raises(AdapterUnreadable):
            read(content)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=200), st.integers(0, 250))
def test_damage_is_refused_or_harmless(noise: bytes, cut: int) -> None:
    whole = file_of({"a": ENTRY})
    for content in (noise, whole[:cut], whole[:cut] + noise):
        with contextlib.suppress(AdapterUnreadable):
            read(content)
