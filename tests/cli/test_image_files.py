from __future__ import annotations

from pathlib import Path

import pytest

from cli.image_files import format_for, paths_for
from shared.errors import InvalidRequest


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


def test_one_image_goes_into_the_file_and_several_are_numbered() -> None:
    assert paths_for(Path("a/x.png"), "a/x.png", "ID", ["png"]) == [Path("a/x.png")]
    assert paths_for(Path("a/x.png"), "a/x.png", "ID", ["png"] * 2) == [Path("a/x-0.png"), Path("a/x-1.png")]


def test_a_folder_takes_files_named_after_the_job(tmp_path: Path) -> None:
    existing = tmp_path / "with.dot"
    existing.mkdir()
    assert paths_for(existing, str(existing), "ID", ["jpg"]) == [existing / "ID-0.jpg"]
    assert paths_for(Path("new"), "new", "ID", ["png"]) == [Path("new/ID-0.png")]
