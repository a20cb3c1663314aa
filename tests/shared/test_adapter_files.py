from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from threading import Event

import pytest

from shared import adapter_files
from shared.adapter_files import FileHashes, sha256_of
from shared.errors import AdapterNotReady


def _hash(data: bytes) -> str:
    return sha256(data).hexdigest()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were read."""
    found: list[Path] = []

    def counted(path: Path) -> str:
        found.append(path)
        return sha256_of(path)

    monkeypatch.setattr(adapter_files, "sha256_of", counted)
    return found


def test_a_file_is_read_again_only_when_it_looks_changed(tmp_path: Path, read: list[Path]) -> None:
    hashes, path = FileHashes(), tmp_path / "a"
    path.write_bytes(b"one")
    assert [hashes.of(path) for _ in range(3)] == [_hash(b"one")] * 3
    assert len(read) == 1
    path.write_bytes(b"two")
    os.utime(path, ns=(1, 1))
    assert hashes.of(path) == _hash(b"two")
    path.unlink()
    with pytest.raises(FileNotFoundError):
        hashes.of(path)


def test_only_so_many_are_remembered(tmp_path: Path, read: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter_files, "MOST_REMEMBERED", 2)
    hashes = FileHashes()
    for name in "abc":
        (tmp_path / name).write_bytes(name.encode())
    for name in "abacab":
        hashes.of(tmp_path / name)
    assert [path.name for path in read] == ["a", "b", "c", "b"]


def test_a_large_file_is_not_ready_until_it_has_been_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_go, begun = Event(), []

    def slow(path: Path) -> str:
        begun.append(path)
        let_go.wait()
        return sha256_of(path)

    monkeypatch.setattr(adapter_files, "sha256_of", slow)
    (tmp_path / "a").write_bytes(b"large")
    hashes = FileHashes(budget_s=0.01)
    for _ in range(3):
        with pytest.raises(AdapterNotReady, match=r"adapters\[0\]\.source: the file is large") as refused:
            hashes.of(tmp_path / "a", field="adapters[0].source")
    assert refused.value.retryable
    let_go.set()
    monkeypatch.setattr(hashes, "_budget_s", 30.0)
    assert hashes.of(tmp_path / "a") == _hash(b"large")
    assert len(begun) == 1


def test_a_file_that_could_not_be_read_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> str:
        raise PermissionError

    hashes = FileHashes()
    (tmp_path / "a").write_bytes(b"mine")
    with monkeypatch.context() as patch:
        patch.setattr(adapter_files, "sha256_of", refuse)
        with pytest.raises(PermissionError):
            hashes.of(tmp_path / "a")
    assert hashes.of(tmp_path / "a") == _hash(b"mine")
