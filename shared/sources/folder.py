"""``file:`` sources: files below the adapter folder, held to their hash."""

from __future__ import annotations

from pathlib import Path

from shared.adapter_files import FileHashes, resolve
from shared.errors import UnknownAdapter
from shared.sources.identity import Identity
from shared.sources.local import open_local
from shared.sources.opened import Opened
from shared.sources.origin import check_size
from shared.sources.source import FolderFile


class FolderOrigin:
    """Opens files of one folder; workers read them where they lie."""

    def __init__(self, folder: Path | None, largest_bytes: int) -> None:
        self._folder = folder
        self._largest_bytes = largest_bytes
        self._hashes = FileHashes()

    def open(self, source: FolderFile, field: str) -> Opened:
        """Raises ``UnknownAdapter``, ``AdapterTooLarge``, or ``AdapterNotReady`` while the file is being hashed."""
        try:
            path = resolve(self._folder, source.path, field=field)
            check_size(path.stat().st_size, self._largest_bytes)
            sha256 = self._hashes.of(path, field=field)
        except (OSError, ValueError) as error:
            raise UnknownAdapter("this file cannot be read.") from error
        return open_local(path, Identity(location=source.text, revision=None, sha256=sha256))
