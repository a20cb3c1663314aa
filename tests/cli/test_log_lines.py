from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from cli.log_lines import FileLog, TerminalLog, colour_of, printable
from shared.errors import Misconfigured


def test_every_line_has_its_prefix_and_is_never_wrapped() -> None:
    out = io.StringIO()
    log = TerminalLog(Console(file=out, width=20), ("api", "worker-x"), "hotslot")
    log("api", "a line that is longer than the terminal is wide [red]")
    log("worker-x", "done")
    assert out.getvalue().splitlines() == [
        "api      │ a line that is longer than the terminal is wide [red]",
        "worker-x │ done",
    ]


def test_colours_only_where_the_output_takes_them() -> None:
    out = io.StringIO()
    log = TerminalLog(Console(file=out, force_terminal=True, color_system="standard"), ("api",), "hotslot")
    log("api", "12:00:00 ERROR no")
    assert "\x1b[31m" in out.getvalue()


def test_a_line_cannot_command_the_terminal() -> None:
    assert printable("a\x1b]0;title\x07b\tc") == "a�]0;title�b\tc"


@pytest.mark.parametrize(
    ("line", "colour"),
    [("12:00:00 WARNING x", "yellow"), ("12:00:00 ERROR   x", "red"), ("12:00:00 INFO    ERROR", ""), ("ERROR", "")],
)
def test_colour_by_level(line: str, colour: str) -> None:
    assert colour_of(line) == colour


def test_a_reader_that_left_stops_nobody() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError("gone")

    log = TerminalLog(Console(file=Gone()), ("api",), "hotslot")
    log("api", "one")
    log("api", "two")


def test_a_file_per_process(tmp_path: Path) -> None:
    log = FileLog(tmp_path / "logs")
    log("api", "one")
    log("worker", "two")
    log("api", "three")
    log.close()
    assert (tmp_path / "logs" / "api.log").read_text() == "one\nthree\n"
    assert (tmp_path / "logs" / "worker.log").read_text() == "two\n"


def test_a_folder_that_cannot_be_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Misconfigured, match="file/logs"):
        FileLog(tmp_path / "file" / "logs")
