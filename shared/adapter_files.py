"""``file:`` adapter sources: paths below the configured folder, and nothing outside it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from shared.errors import UnknownAdapter

_CHUNK_BYTES = 1 << 20


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
