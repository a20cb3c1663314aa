"""A trained pipeline and its adapters as they lie in a folder, proven by their manifest. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from worker.playground.manifest import proven


@dataclass(frozen=True)
class Bundled:
    """Where it lies: a diffusers folder, and the adapter files by name."""

    pipeline_folder: Path
    adapters: dict[str, Path]
    version: str


def bundled(folder: Path) -> Bundled:
    """What ``folder`` holds; ``WeightsAltered`` unless every file is the one that was exported."""
    version, files = proven(folder)
    return Bundled(folder, {file.stem: file for file in files if file.parent.name == "adapters"}, version)
