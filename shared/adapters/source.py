"""Where an adapter's bytes come from, as far as inspection asks: ranges of them, never all."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from shared.errors import AdapterUnreadable

ReadRange = Callable[[int, int], bytes]
"""(offset, length) to the bytes there; fewer only where the file ends. May raise what its source raises."""


@dataclass(frozen=True)
class Opened:
    """An adapter file that can be read in ranges. ``sha256``: hex, None where it is not known without reading all."""

    size_bytes: int
    sha256: str | None
    read_range: ReadRange


class OpenSource(Protocol):
    """Opens what a job or a registration names as its source, for as long as the context lasts."""

    def __call__(self, source: str, *, field: str) -> AbstractContextManager[Opened]:
        """Raises ``UnknownAdapter`` or ``AddressRefused`` naming ``field``, or an ``Unavailable`` that passes."""


@contextmanager
def opened_file(path: Path) -> Iterator[BinaryIO]:
    """A regular file, open for reading; ``AdapterUnreadable`` for anything else."""
    try:
        # Not blocking: a named pipe in the folder would otherwise hold the process for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "its name cannot be one"
        raise AdapterUnreadable(f"the file cannot be opened: {why}.", reason="no_file") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise AdapterUnreadable("it is not a file.", reason="no_file")
    with os.fdopen(descriptor, "rb") as file:
        yield file


def ranges_of(file: BinaryIO) -> ReadRange:
    """Ranges of an open file; ``AdapterUnreadable`` if it cannot be read."""

    def read_range(offset: int, length: int) -> bytes:
        try:
            file.seek(offset)
            return file.read(length)
        except OSError as error:
            raise AdapterUnreadable(f"the file cannot be read: {error.strerror}.", reason="no_file") from error

    return read_range


def size_of(file: BinaryIO) -> int:
    """Size of an open file in bytes."""
    return os.fstat(file.fileno()).st_size


@contextmanager
def open_path(path: Path, sha256: str | None = None) -> Iterator[Opened]:
    """A local file as a source."""
    with opened_file(path) as file:
        yield Opened(size_of(file), sha256, ranges_of(file))
