"""The verdict of inspection is what the converter does, for any file whose weights are finite."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from shared.adapters.inspection import inspect
from shared.adapters.served import base_of
from shared.adapters.source import local_file
from shared.catalogue import read_catalogue
from shared.errors import AdapterError
from tests.adapter_bytes import packed
from tests.mutations import RIGHT, adapter_files, damaged_files
from worker.convert import read_adapter

BASE = base_of(read_catalogue().base_models["tiny-flux"])


def outcome(path: Path) -> tuple[str, str | None]:
    """What the converter does: ``taken`` or the code of its error, and the reason."""
    assert BASE is not None
    try:
        found = read_adapter(path, hashlib.sha256(path.read_bytes()).hexdigest(), BASE, torch.bfloat16)
    except AdapterError as error:
        return error.code, error.reason
    assert all(torch.isfinite(half).all() for layer in found.layers.values() for half in (layer.down, layer.up))
    return "taken", None


def verdict(path: Path) -> tuple[str, str | None]:
    found = inspect(local_file(path), BASE, "tiny-flux").verdict
    assert found is not None
    return ("taken", None) if found.outcome != "refused" else (found.code or "", found.reason)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files") / "a.safetensors"


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(content=adapter_files() | damaged_files())
def test_the_verdict_is_the_outcome(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    found = outcome(path)
    # A damaged file's weights may be any bits; that they are not finite is seen when they are read.
    if found[0] != "adapter_not_finite":
        assert found == verdict(path)


def test_the_files_before_mutation_are_taken_and_refused(path: Path) -> None:
    verdicts = []
    for tensors, metadata in RIGHT:
        path.write_bytes(packed(tensors, metadata))
        assert outcome(path) == verdict(path)
        verdicts.append(verdict(path)[0])
    assert verdicts == ["taken"] * 8 + ["adapter_mismatch", "adapter_unsupported"]
