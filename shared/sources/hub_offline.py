"""``hf:`` sources without a network: what the hub's own cache on this machine holds."""

from __future__ import annotations

import re
from pathlib import Path

from shared.errors import UnknownAdapter
from shared.sources.hub import cache_folder_of, pick
from shared.sources.identity import Identity
from shared.sources.local import copy_local, open_local
from shared.sources.opened import Opened
from shared.sources.origin import OnSize, Sink, check_size
from shared.sources.source import SUFFIX, HubFile

_SHA256 = re.compile(r"[0-9a-f]{64}")


class OfflineHub:
    """See :class:`shared.sources.origin.Origin`. Reads the cache that ``hf download`` fills."""

    def __init__(self, largest_bytes: int, cache_folder: Path | None = None) -> None:
        """``cache_folder``: default is the one that the hub's own settings name."""
        self._largest_bytes = largest_bytes
        self._cache_folder = cache_folder

    def open(self, source: HubFile, budget_s: float) -> Opened:
        """A file of a snapshot, pinned to the snapshot's commit."""
        snapshot = self._snapshot(source)
        files = [path.relative_to(snapshot).as_posix() for path in snapshot.rglob(f"*{SUFFIX}")]
        pinned = HubFile(source.repo, snapshot.name, pick(files, source))
        path = self._path(pinned)
        # Large files lie there under their hash; a worker proves it when it reads them.
        sha256 = path.name if _SHA256.fullmatch(path.name) else None
        opened = open_local(path, Identity(location=pinned.text, revision=snapshot.name, sha256=sha256))
        check_size(opened.size_bytes, self._largest_bytes)
        return opened

    def download(
        self, source: HubFile, identity: Identity, begin_bytes: int, on_size: OnSize, sink: Sink, budget_s: float
    ) -> None:
        """A copy from the hub's cache."""
        copy_local(self._path(source), begin_bytes, on_size, sink)

    def _path(self, pinned: HubFile) -> Path:
        path = (self._snapshot(pinned) / (pinned.file or "")).resolve()
        if not path.is_relative_to(cache_folder_of(pinned.repo, self._cache_folder).resolve()) or not path.is_file():
            raise _missing(pinned)
        return path

    def _snapshot(self, source: HubFile) -> Path:
        folder = cache_folder_of(source.repo, self._cache_folder)
        revision = source.revision or "main"
        if ".." in revision.split("/") or revision.startswith("/"):
            raise _missing(source)
        reference = folder / "refs" / revision
        commit = reference.read_text().strip() if reference.is_file() else revision
        snapshot = folder / "snapshots" / commit
        if "/" in commit or not commit or not snapshot.is_dir():
            raise _missing(source)
        return snapshot


def _missing(source: HubFile) -> UnknownAdapter:
    return UnknownAdapter(
        f"hf:{source.repo} at this revision is not in the hub's cache on this machine, and the network is not asked "
        "(HF_HUB_OFFLINE); fetch it with hf download."
    )
