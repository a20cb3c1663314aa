"""The hashes of the bundled weights: written when they are exported, proven before they are used."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from shared.adapter_files import sha256_of
from shared.errors import WeightsAltered

NAME = "manifest.json"
REMEDY = "install Hotslot again, or take the folder worker/playground/weights from its release"


def write_manifest(folder: Path) -> None:
    """Write ``manifest.json``: SHA-256 by path for every file below ``folder``."""
    hashes = {str(path.relative_to(folder)): sha256_of(path) for path in _files(folder)}
    (folder / NAME).write_text(json.dumps({"files": hashes}, indent=1, sort_keys=True) + "\n")


def proven(folder: Path) -> tuple[str, list[Path]]:
    """Twelve hex digits that stand for all files together, and these files.

    Raises ``WeightsAltered`` if one is missing, or is not the one that was exported.
    """
    try:
        text = (folder / NAME).read_text()
        expected: dict[str, str] = dict(json.loads(text)["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WeightsAltered(f"The bundled weights have no readable {NAME}; {REMEDY}.") from error
    for name, sha256 in expected.items():
        _prove(folder / name, name, sha256)
    return hashlib.sha256(text.encode()).hexdigest()[:12], [folder / name for name in expected]


def _prove(path: Path, name: str, sha256: str) -> None:
    try:
        found = sha256_of(path)
    except OSError as error:
        raise WeightsAltered(f"The bundled file {name} is missing or cannot be read; {REMEDY}.") from error
    if found != sha256:
        raise WeightsAltered(f"The bundled file {name} is not the one that was released; {REMEDY}.")


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != NAME)
