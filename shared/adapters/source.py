"""Where an adapter's bytes come from, as far as inspection asks: ranges of them, never all."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from shared.errors import AdapterUnreadable

ReadRange = Callable[[int, int], bytes]
"""(offset, length) to the bytes there; fewer only where the file ends. May raise what its source raises."""


class Opened(Protocol):
    """An adapter file that can be read in ranges."""

    @property
    def size_bytes(self) -> int:
        """Of the whole file."""

    @property
    def sha256(self) -> str | None:
        """Hex, where it is known without reading the file."""

    @property
    def read_range(self) -> ReadRange:
        """Reads a part of it."""


class OpenSource(Protocol):
    """Opens what a caller names as a source."""

    def __call__(self, source: str, *, field: str = "adapters") -> Opened:
        """Raises ``UnknownAdapter`` or ``AddressRefused`` naming ``field``, or an ``Unavailable``, which passes."""


@dataclass(frozen=True)
class LocalFile:
    """A file of this machine, opened anew for every part."""

    path: Path
    size_bytes: int
    sha256: str | None = None

    @property
    def read_range(self) -> ReadRange:
        """Reads a part of it; ``AdapterUnreadable`` if it cannot be read."""

        def read(offset: int, length: int) -> bytes:
            with opened_file(self.path) as file:
                return ranges_of(file)(offset, length)

        return read


def local_file(path: Path, sha256: str | None = None) -> LocalFile:
    """The file at ``path``; ``AdapterUnreadable`` if it is none."""
    with opened_file(path) as file:
        return LocalFile(path, size_of(file), sha256)


@contextmanager
def opened_file(path: Path) -> Iterator[BinaryIO]:
    """A regular file, open for reading; ``AdapterUnreadable`` for anything else."""
    try:
        # Not blocking: a named pipe in the folder would otherwise hold the process for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise AdapterUnreadable(f"the file cannot be opened: {error.strerror}.", reason="no_file") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise AdapterUnreadable("it is not a file.", reason="no_file")
    with os.fdopen(descriptor, "rb") as file:
        yield file


def ranges_of(file: BinaryIO) -> ReadRange:
    """Parts of an open file."""

    def read(offset: int, length: int) -> bytes:
        try:
            file.seek(offset)
            return file.read(length)
        except OSError as error:
            raise AdapterUnreadable(f"the file cannot be read: {error.strerror}.", reason="no_file") from error

    return read


def size_of(file: BinaryIO) -> int:
    """Size of an open file in bytes."""
    return os.fstat(file.fileno()).st_size
