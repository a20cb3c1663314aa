"""Fetched adapters on this machine's disk: by hash, within a cap, shared by processes, safe against any kill.

    files/SHA256.safetensors   whole and verified; the time of change is that of the last use
    index/KEY                  which file a place and version (``Identity.key``) turned out to be
    partial/KEY-BOOT.part      what is being fetched, or was when its process died

Only what was fetched from a place is found for that place: a hash that somebody merely claims opens no other's file.
Locks are ``flock``s, which end with their process. Whoever fetches holds its part exclusively; whoever reads holds the
file shared; what cannot be locked exclusively is not evicted.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from shared.errors import CacheFull

POLL_S = 0.05
OnWait = Callable[[int], None]
"""Told how many bytes the other one has fetched so far."""
LEFTOVER_S = 24 * 3600.0
"""Parts that nobody went on with for so long are swept."""
UNSETTLED_S = 60.0
"""Index entries are left alone for so long: the file of one that is being written comes after it."""

_CHUNK_BYTES = 1 << 20
_ENTRY = re.compile(r"([0-9a-f]{64}) ([0-9]+)\n")


@dataclass(frozen=True)
class Held:
    """A whole file that is not evicted before it is closed. ``sha256``: computed from its bytes when it was fetched."""

    path: Path
    sha256: str
    _descriptor: int

    def close(self) -> None:
        """Let it be evicted."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Part:
    """A file that is being fetched, locked for whoever has this object; its bytes are hashed as they come."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self._digest = hashlib.sha256()

    @property
    def size_bytes(self) -> int:
        """So much is there."""
        return os.fstat(self.descriptor).st_size

    @property
    def sha256(self) -> str:
        """Of what is there, hex."""
        return self._digest.hexdigest()

    def cut(self, size_bytes: int) -> None:
        """Keep the first bytes only, and hash them."""
        os.ftruncate(self.descriptor, size_bytes)
        self._digest = hashlib.sha256()
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        while piece := os.read(self.descriptor, _CHUNK_BYTES):
            self._digest.update(piece)

    def append(self, piece: bytes) -> None:
        """Write at the end; ``OSError`` when the disk does not take it."""
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(self.descriptor, rest) :]
        self._digest.update(piece)


class AdapterCache:
    """Safe from any thread and process. ``spare_bytes`` of the disk are left free."""

    def __init__(self, folder: Path, cap_bytes: int, spare_bytes: int) -> None:
        self._files, self._index, self._parts = (folder / name for name in ("files", "index", "partial"))
        for each in (self._files, self._index, self._parts):
            each.mkdir(parents=True, exist_ok=True)
        self._cap_bytes = cap_bytes
        self._spare_bytes = spare_bytes
        # A part may lack bytes after a crash of the machine, though never after one of a process.
        self._boot = _boot_id()

    def find(self, key: str) -> Held | None:
        """The file that this place and version turned out to be, if it is still here; now the last one used."""
        entry = self._read(key)
        if entry is None:
            return None
        sha256, size_bytes = entry
        held = self._hold(sha256)
        if held is None or os.stat(held.path).st_size == size_bytes:
            return held
        held.close()
        self.drop(sha256)
        return None

    def has(self, key: str) -> bool:
        """Whether ``find`` would find it now; this is no use of it."""
        entry = self._read(key)
        return entry is not None and self._path(entry[0]).exists()

    @contextmanager
    def part(self, key: str, on_wait: OnWait) -> Iterator[Part]:
        """What there is of a file, locked. While another one has it, ``on_wait`` is called every ``POLL_S``."""
        path = self._parts / f"{key}-{self._boot}.part"
        descriptor = _locked(path, on_wait)
        try:
            yield Part(path, descriptor)
        finally:
            os.close(descriptor)

    def keep(self, key: str, part: Part) -> Held:
        """Take a part that is whole and verified among the files, then evict the least recently used above the cap."""
        sha256, size_bytes = part.sha256, part.size_bytes
        os.fsync(part.descriptor)
        # Before the part goes: whoever waits for it looks here as soon as it is gone.
        self._write(key, f"{sha256} {size_bytes}\n")
        held = self._hold(sha256)
        if held is None:
            held = self._hold_new(part, sha256)
        else:
            part.path.unlink()
        self._evict_above(self._cap_bytes)
        return held

    def make_room(self, size_bytes: int) -> None:
        """See that the disk takes so many bytes more; evicts before they are there only when it would not otherwise.

        ``CacheFull`` when that would not be enough; then nothing is evicted.
        """
        missing_bytes = size_bytes + self._spare_bytes - shutil.disk_usage(self._files).free
        if missing_bytes <= 0:
            return
        there_bytes = sum(size for _, size, _ in self._by_use())
        if there_bytes >= missing_bytes:
            self._evict_above(there_bytes - missing_bytes)
            if shutil.disk_usage(self._files).free >= size_bytes + self._spare_bytes:
                return
        raise CacheFull(
            f"this worker's disk has no room for {size_bytes} bytes more; its operator must free some, then try again."
        )

    def drop(self, sha256: str) -> None:
        """Forget a file, for it is not what its name says."""
        self._path(sha256).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove what processes that died have left, and index entries of files that are gone."""
        self._evict_above(self._cap_bytes)
        now_s = time.time()
        for path in self._parts.iterdir():
            with suppress(FileNotFoundError):
                if self._boot not in path.name or path.stat().st_mtime < now_s - LEFTOVER_S:
                    _remove_unlocked(path)
        for path in self._index.iterdir():
            entry = self._read(path.name)
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < now_s - UNSETTLED_S and (entry is None or not self._path(entry[0]).exists()):
                    path.unlink()

    def _path(self, sha256: str) -> Path:
        return self._files / f"{sha256}.safetensors"

    def _read(self, key: str) -> tuple[str, int] | None:
        with suppress(OSError, UnicodeDecodeError):
            if entry := _ENTRY.fullmatch((self._index / key).read_text()):
                return entry[1], int(entry[2])
        return None

    def _write(self, key: str, text: str) -> None:
        draft = self._index / f"{key}.{secrets.token_hex(8)}"
        draft.write_text(text)
        os.replace(draft, self._index / key)

    def _hold(self, sha256: str) -> Held | None:
        path = self._path(sha256)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if not _is_at(descriptor, path):
            os.close(descriptor)
            return None
        os.utime(descriptor)
        return Held(path, sha256, descriptor)

    def _hold_new(self, part: Part, sha256: str) -> Held:
        path = self._path(sha256)
        os.replace(part.path, path)
        # A copy of the descriptor shares its lock, which must not end with the part.
        descriptor = os.dup(part.descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if not _is_at(descriptor, path):
            # For a moment nobody had the lock.
            os.close(descriptor)
            raise CacheFull("the adapter was evicted at once, because the cache is far too small; try again.")
        return Held(path, sha256, descriptor)

    def _by_use(self) -> list[tuple[float, int, Path]]:
        """Time of last use, size and path of each file, the longest unused first."""
        found = []
        for path in self._files.iterdir():
            with suppress(FileNotFoundError):
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        return sorted(found)

    def _evict_above(self, cap_bytes: int) -> None:
        files = self._by_use()
        total_bytes = sum(size for _, size, _ in files)
        for _, size_bytes, path in files:
            if total_bytes <= cap_bytes:
                return
            if _remove_unlocked(path):
                total_bytes -= size_bytes


def sha256_matches(held: Held) -> bool:
    """Whether the bytes on disk are still those that were fetched; reads them all."""
    with held.path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == held.sha256


def _locked(path: Path, on_wait: OnWait) -> int:
    """A descriptor of the file at ``path`` with its only lock, made if it is not there."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            # Once it is whole it is another file, which its readers keep locked for as long as they like.
            while _is_at(descriptor, path):
                if _try_lock(descriptor):
                    break
                on_wait(os.fstat(descriptor).st_size)
                time.sleep(POLL_S)
            if _is_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        # Whoever had it has finished and taken it away; look again.
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def _remove_unlocked(path: Path) -> bool:
    """Remove the file unless somebody holds it; whether it is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        if not _try_lock(descriptor):
            return False
        if _is_at(descriptor, path):
            path.unlink()
        return True
    finally:
        os.close(descriptor)


def _boot_id() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return "unknown"
