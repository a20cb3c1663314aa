"""Whatever a file holds, inspection ends with an answer, and in bounded memory."""

from __future__ import annotations

import json
import struct
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings

from shared.adapters import header as headers
from shared.adapters.base import BaseLayers
from shared.adapters.header import MAX_HEADER_BYTES, read_header
from shared.adapters.inspection import Inspection, inspect
from shared.adapters.plan import plan_adapter
from shared.adapters.resolve import base_model_of
from shared.adapters.served import served_bases
from shared.catalogue import read_catalogue
from shared.errors import AdapterError
from tests.mutations import adapter_files, damaged_files

CATALOGUE = read_catalogue()
BASES = served_bases(CATALOGUE)
TINY: BaseLayers = BASES["tiny-flux"]

FUZZED = settings(max_examples=1200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class File:
    """Bytes as a source; refuses to be read beyond its header's cap."""

    sha256 = None

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.size_bytes = len(content)

    def read_range(self, offset: int, length: int) -> bytes:
        assert length <= MAX_HEADER_BYTES
        return self._content[offset : offset + length]


def judged(content: bytes) -> Inspection:
    """The inspection, which must agree with the plan and must be sayable as JSON."""
    file = File(content)
    found = inspect(file, TINY, "tiny-flux")
    assert found.verdict is not None
    error = plan = None
    try:
        header = read_header(file.read_range, file.size_bytes)
        plan = plan_adapter(header, TINY)
    except AdapterError as raised:
        error = raised
    if error is not None:
        said = found.verdict.sentence
        assert (found.verdict.outcome, found.verdict.code, said) == ("refused", error.code, error.message)
        assert error.message.isprintable()
        assert len(error.message) < 1000
    if plan is not None:
        assert found.verdict.outcome == ("converts" if plan.renamed else "fits")
        # Every key is accounted for.
        assert {key for layer in plan.layers for key in layer.keys} == set(header.tensors)
        assert base_model_of(header, CATALOGUE, BASES) == "tiny-flux"
    assert Inspection.model_validate_json(found.model_dump_json()) == found
    return found


@FUZZED
@given(adapter_files())
def test_well_formed_files_get_an_answer(content: bytes) -> None:
    judged(content)


@FUZZED
@given(damaged_files())
def test_damaged_files_get_an_answer(content: bytes) -> None:
    judged(content)


CAP_BYTES = MAX_HEADER_BYTES // 8
"""The cap in force where memory is measured, which is slow: what is taken grows with the header alone."""


def _filled(piece: Callable[[int], str], before: str = "{", after: str = "}") -> bytes:
    """A header of many pieces, as long as it may be."""
    parts, length, number = [before], len(before) + len(after), 0
    while length + len(part := piece(number)) + 1 <= CAP_BYTES:
        parts.append(part + ",")
        length += len(part) + 1
        number += 1
    parts[-1] = parts[-1][:-1]
    return ("".join(parts) + after).encode()


_EMPTY = '{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
_ONES = ",".join(["1"] * 8)
HEAVY: dict[str, Callable[[], bytes]] = {
    "many lists": lambda: _filled(lambda i: "[]", '{"a":[', "]}"),
    "many dimensions": lambda: _filled(lambda i: "9", '{"a":{"dtype":"F32","data_offsets":[0,0],"shape":[', "]}}"),
    "many tensors": lambda: _filled(lambda i: f'"{i}":{_EMPTY}'),
    "many keys of a known form": lambda: _filled(lambda i: f'"lora_unet_{i}.lora_down.weight":{_EMPTY}'),
    "many text-encoder keys": lambda: _filled(lambda i: f'"lora_te1_{i}.lora_down.weight":{_EMPTY}'),
    "one long name": lambda: ('{"' + "a" * (CAP_BYTES - 70) + f'":{_EMPTY}}}').encode(),
    "much metadata": lambda: _filled(lambda i: f'"modelspec.{i}":"x"', '{"__metadata__":{', "}}"),
    "a long number": lambda: b'{"a":' + b"9" * (CAP_BYTES - 6) + b"}",
    "deep": lambda: b'{"a":' + b"[" * (CAP_BYTES - 5),
    "many patterns": lambda: _with_patterns(CAP_BYTES // 32),
}


def _with_patterns(count: int) -> bytes:
    config = {
        "transformer.r": 4,
        "transformer.lora_alpha": 4,
        "transformer.alpha_pattern": {str(i): 1 for i in range(count)},
    }
    layer = "transformer.transformer_blocks.0.attn.to_q"
    header = {
        "__metadata__": {"lora_adapter_metadata": json.dumps(config, separators=(",", ":"))},
        f"{layer}.lora_A.weight": {"dtype": "F32", "shape": [4, 64], "data_offsets": [0, 1024]},
        f"{layer}.lora_B.weight": {"dtype": "F32", "shape": [64, 4], "data_offsets": [1024, 2048]},
    }
    return json.dumps(header, separators=(",", ":")).encode()


@pytest.mark.parametrize("name", HEAVY)
def test_memory_is_bounded_by_the_headers_cap(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "MAX_HEADER_BYTES", CAP_BYTES)
    raw = HEAVY[name]()
    assert len(raw) <= CAP_BYTES
    data = bytes(2048 if name == "many patterns" else 0)
    file = File(struct.pack("<Q", len(raw)) + raw + data)
    tracemalloc.start()
    try:
        found = inspect(file, TINY, "tiny-flux")
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.verdict is not None
    assert found.verdict.outcome == "refused"
    assert peak_bytes < 40 * CAP_BYTES
