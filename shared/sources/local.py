"""Files on this machine, opened as sources are: without following what is no file, and read in parts."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.errors import AdapterChanged, UnknownAdapter
from shared.sources.identity import Identity
from shared.sources.opened import Opened, check_piece
from shared.sources.origin import CHANGED

_CHUNK_BYTES = 1 << 20


def open_local(path: Path, identity: Identity) -> Opened:
    """The file at ``path``; ``UnknownAdapter`` when it cannot be read, ``AdapterChanged`` when it is replaced later."""
    with _descriptor(path) as descriptor:
        status = os.fstat(descriptor)

    def read_range(offset: int, length: int) -> bytes:
        check_piece(length)
        with _descriptor(path) as again:
            now = os.fstat(again)
            if (now.st_ino, now.st_size, now.st_mtime_ns) != (status.st_ino, status.st_size, status.st_mtime_ns):
                raise AdapterChanged(CHANGED)
            return os.pread(again, length, offset)

    return Opened(identity, status.st_size, read_range)


def copy_local(path: Path, begin_bytes: int, on_size: Callable[[int], None], sink: Callable[[bytes], None]) -> None:
    """Hand the file's bytes from ``begin_bytes`` on to ``sink``."""
    with _descriptor(path) as descriptor:
        on_size(os.fstat(descriptor).st_size)
        os.lseek(descriptor, begin_bytes, os.SEEK_SET)
        while piece := os.read(descriptor, _CHUNK_BYTES):
            sink(piece)


@contextmanager
def _descriptor(path: Path) -> Iterator[int]:
    try:
        # Not blocking: a named pipe would otherwise hold the caller for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError):
        raise UnknownAdapter("this file cannot be read.") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnknownAdapter("this is not a file.")
        yield descriptor
    finally:
        os.close(descriptor)
