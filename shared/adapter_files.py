"""``file:`` adapter sources: paths below the configured folder, and nothing outside it."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from concurrent.futures import Future
from pathlib import Path
from threading import Lock, Semaphore, Thread

from shared.errors import AdapterNotReady, UnknownAdapter

READ_BUDGET_S = 5.0
MOST_REMEMBERED = 1024
READ_AT_ONCE = 2

_CHUNK_BYTES = 1 << 20

_Identity = tuple[str, int, int, int]
"""Real path, inode, bytes, and nanoseconds of the last change."""


def resolve(folder: Path | None, relative: str, *, field: str = "adapters") -> Path:
    """The file that ``file:relative`` means; ``UnknownAdapter`` when it is absent, outside, or not allowed."""
    if folder is None:
        raise UnknownAdapter(
            f"{field}: file: sources are not taken here; set HOTSLOT_ADAPTER_FOLDER to allow a folder.", field=field
        )
    root = folder.resolve()
    path = (root / relative).resolve()
    if not path.is_relative_to(root) or "\0" in relative:
        raise UnknownAdapter(f"{field}: file:{relative} leads out of the adapter folder.", field=field)
    if not path.is_file():
        raise UnknownAdapter(f"{field}: file:{relative} is not in the adapter folder.", field=field)
    return path


def sha256_of(path: Path) -> str:
    """SHA-256 of the file, hex; reads it in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_CHUNK_BYTES):
            digest.update(piece)
    return digest.hexdigest()


class FileHashes:
    """SHA-256 of files, remembered until a file looks changed; for any thread.

    A file that was altered without looking so is caught later: the worker proves the hash before it uses the bytes.
    """

    def __init__(self, budget_s: float = READ_BUDGET_S) -> None:
        self._budget_s = budget_s
        self._lock = Lock()
        self._reading = Semaphore(READ_AT_ONCE)
        self._known: OrderedDict[_Identity, Future[str]] = OrderedDict()

    def of(self, path: Path, *, field: str = "adapters") -> str:
        """The file's hash; ``OSError`` when it cannot be read, ``AdapterNotReady`` while it is still being read."""
        status = path.stat()
        found = self._of((str(path), status.st_ino, status.st_size, status.st_mtime_ns))
        try:
            return found.result(self._budget_s)
        except TimeoutError:
            raise AdapterNotReady(f"{field}: the file is large and still being read; try again.", field=field) from None

    def _of(self, identity: _Identity) -> Future[str]:
        with self._lock:
            found = self._known.get(identity)
            if found is None or (found.done() and found.exception()):
                found = self._known[identity] = Future()
                # A daemon, so that a large file does not hold up the end of the process.
                Thread(target=self._read, args=(Path(identity[0]), found), name="adapter hash", daemon=True).start()
            self._known.move_to_end(identity)
            if len(self._known) > MOST_REMEMBERED:
                self._known.popitem(last=False)
            return found

    def _read(self, path: Path, found: Future[str]) -> None:
        try:
            with self._reading:
                found.set_result(sha256_of(path))
        except Exception as error:
            found.set_exception(error)
