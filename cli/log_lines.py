"""Where the lines of several processes go: one terminal with a prefix per process, or a file per process."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from threading import Lock

from rich.console import Console
from rich.text import Text

from shared.errors import Misconfigured

COLOURS = ("cyan", "magenta", "green", "yellow", "blue")
OWN_COLOUR = "bold"
WARNING_COLOURS = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LEVEL = re.compile(r"^\d\d:\d\d:\d\d (WARNING|ERROR|CRITICAL)")


class TerminalLog:
    """Prints lines as ``name │ line``, each process in a colour of its own where the output takes colours."""

    def __init__(self, console: Console, names: tuple[str, ...], own_name: str) -> None:
        self._console = console
        self._width = max(map(len, (*names, own_name)))
        self._colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
        self._own_name = own_name
        self._lock = Lock()

    def __call__(self, name: str, line: str) -> None:
        """Print one line of the process of this name."""
        own = name == self._own_name
        stamped = f"{time.strftime('%H:%M:%S')} {line}" if own else line
        text = Text.assemble(
            (f"{name:<{self._width}} │ ", self._colours.get(name, OWN_COLOUR)),
            (printable(stamped), colour_of(stamped)),
        )
        # The reader of a pipe may leave, or the terminal; the processes must not stop for that.
        with self._lock, suppress(OSError, SystemExit):
            self._console.print(text, soft_wrap=True, highlight=False)


class FileLog:
    """Appends lines to ``NAME.log`` in a folder; use as a context manager or call ``close``."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Misconfigured(f"The folder {folder} cannot be made: {error.strerror}.") from error
        self._folder = folder
        self._files: dict[str, TextIOWrapper] = {}
        self._lock = Lock()

    def __call__(self, name: str, line: str) -> None:
        """Write one line of the process of this name."""
        with self._lock:
            if name not in self._files:
                self._files[name] = (self._folder / f"{name}.log").open("w", encoding="utf-8", buffering=1)
            self._files[name].write(printable(line) + "\n")

    def close(self) -> None:
        """Close the files; a later line opens its file again."""
        with self._lock:
            for file in self._files.values():
                file.close()
            self._files.clear()


def printable(line: str) -> str:
    """The line without what could command a terminal."""
    return _CONTROL.sub("�", line)


def colour_of(line: str) -> str:
    """Colour for a log line by its level; empty for an ordinary one."""
    level = _LEVEL.match(line)
    return WARNING_COLOURS[level[1]] if level else ""
