from __future__ import annotations

from pathlib import Path

import pytest

from cli.image_files import check_writable, format_for, paths_for
from shared.errors import InvalidRequest, Misconfigured


@pytest.mark.parametrize(
    ("typed", "asked", "expected"),
    [
        ("x.png", None, "png"),
        ("x.JPG", None, "jpeg"),
        ("x.jpeg", "jpeg", "jpeg"),
        ("x.webp", None, "webp"),
        ("folder", None, "png"),
        ("folder.d/", "webp", "webp"),
    ],
)
def test_the_ending_says_the_format(typed: str, asked: str | None, expected: str) -> None:
    assert format_for(Path(typed), typed, asked) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(("typed", "asked"), [("x.png", "jpeg"), ("x.gif", None), ("x.txt", "png")])
def test_an_ending_that_says_another_format_is_refused(typed: str, asked: str | None) -> None:
    with pytest.raises(InvalidRequest, match=typed):
        format_for(Path(typed), typed, asked)  # type: ignore[arg-type]


def test_no_file_leaves_the_format_as_asked() -> None:
    assert format_for(None, "", None) == "png"
    assert format_for(None, "", "webp") == "webp"


def test_where_images_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "old.png").touch()
    for name in ("new.png", "old.png", "new/x.png", "new/", ""):
        typed = f"{tmp_path}/{name}"
        check_writable(Path(typed), typed)


@pytest.mark.parametrize("name", ["file/x.png", "file/", "file/below/x.png"])
def test_what_is_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Misconfigured, match=rf"-o .*: no image can be written there, because of {tmp_path}/file\."):
        check_writable(tmp_path / name, f"{tmp_path}/{name}")


def test_a_folder_that_takes_no_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not by its mode, which root may pass over.
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path)
    with pytest.raises(Misconfigured, match="because of"):
        check_writable(tmp_path / "x.png", f"{tmp_path}/x.png")


def test_one_image_goes_into_the_file_and_several_are_numbered() -> None:
    assert paths_for(Path("a/x.png"), "a/x.png", "ID", ["png"]) == [Path("a/x.png")]
    assert paths_for(Path("a/x.png"), "a/x.png", "ID", ["png"] * 2) == [Path("a/x-0.png"), Path("a/x-1.png")]


def test_a_folder_takes_files_named_after_the_job(tmp_path: Path) -> None:
    existing = tmp_path / "with.dot"
    existing.mkdir()
    assert paths_for(existing, str(existing), "ID", ["jpg"]) == [existing / "ID-0.jpg"]
    assert paths_for(Path("new"), "new", "ID", ["png"]) == [Path("new/ID-0.png")]
