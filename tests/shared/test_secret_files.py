from __future__ import annotations

import stat
from pathlib import Path

import pytest

from shared.errors import Misconfigured
from shared.secret_files import kept_secret


def test_a_secret_is_drawn_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "secrets" / "key"
    assert kept_secret(path, lambda: "first") == "first"
    assert kept_secret(path, lambda: "second") == "first"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [file.name for file in path.parent.iterdir()] == ["key"]


def test_an_empty_file_holds_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.touch()
    assert kept_secret(path, lambda: "drawn") == "drawn"


def test_a_place_that_cannot_hold_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Misconfigured, match="file/key"):
        kept_secret(tmp_path / "file" / "key", lambda: "drawn")
