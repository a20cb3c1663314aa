"""Finished images on disk, so that a crash while they are uploaded never costs drawing them again.

A worker owns one folder; each job lies in ``JOB.ATTEMPT/`` as raw RGB files and ``manifest.json``. The folder of a
worker that is gone is recognised by its lock, which nobody holds, and removed.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from shared.errors import Misconfigured
from shared.job import Receipt
from shared.request import ImageFormat

log = logging.getLogger(__name__)


class SpooledImage(BaseModel):
    """One drawn image: ``file`` holds height x width x 3 bytes of RGB."""

    model_config = ConfigDict(frozen=True)

    file: str
    width: int
    height: int
    seed: int


class Spooled(BaseModel):
    """A drawn job that waits for its upload. ``spooled_at_s`` is Unix time."""

    model_config = ConfigDict(frozen=True)

    job_id: str
    attempt: int
    format: ImageFormat
    images: list[SpooledImage]
    receipt: Receipt
    timings_ms: dict[str, float]
    warnings: list[str]
    spooled_at_s: float

    @property
    def folder(self) -> str:
        """Name of its folder in the spool."""
        return f"{self.job_id}.{self.attempt}"


class Spool:
    """One worker's spool folder."""

    def __init__(self, root: Path, worker: str) -> None:
        self._root = root
        self._folder = root / worker
        self._lock: int | None = None

    def own(self) -> None:
        """Lock the folder for this process's life and remove folders of workers that are gone."""
        self._folder.mkdir(parents=True, exist_ok=True)
        # One worker at a time, or one could take another's new folder, not locked yet, for an abandoned one.
        with (self._root / ".lock").open("a") as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            self._folder.mkdir(exist_ok=True)
            self._lock = _try_lock(self._folder)
            if self._lock is None:
                raise Misconfigured(f"Another worker uses the spool folder {self._folder}; give this one another.")
            for other in self._root.iterdir():
                if other != self._folder and other.is_dir():
                    _remove_if_abandoned(other)

    def put(self, spooled: Spooled, pixels: Sequence[bytes]) -> None:
        """Write the images, then the manifest; a crash in between leaves nothing that counts."""
        target = self._folder / spooled.folder
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for image, data in zip(spooled.images, pixels, strict=True):
            (target / image.file).write_bytes(data)
        draft = target / "manifest.json.part"
        draft.write_text(spooled.model_dump_json(), encoding="utf-8")
        draft.rename(target / "manifest.json")

    def pixels(self, spooled: Spooled, image: SpooledImage) -> bytes:
        """The raw RGB of one image."""
        return (self._folder / spooled.folder / image.file).read_bytes()

    def pending(self) -> list[Spooled]:
        """Every job that waits for its upload, oldest first."""
        found = (_read(path) for path in self._folder.glob("*/manifest.json"))
        return sorted((one for one in found if one is not None), key=lambda spooled: spooled.spooled_at_s)

    def remove(self, spooled: Spooled) -> None:
        """Forget a job."""
        shutil.rmtree(self._folder / spooled.folder, ignore_errors=True)

    def remove_all(self) -> None:
        """Remove the folder of a worker that ends."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _read(path: Path) -> Spooled | None:
    """The manifest; None when the job was removed meanwhile, or by another version and for nobody to read."""
    try:
        return Spooled.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        log.warning("removing %s, whose manifest cannot be read", path.parent.name)
        shutil.rmtree(path.parent, ignore_errors=True)
        return None


def _remove_if_abandoned(folder: Path) -> None:
    lock = _try_lock(folder)
    if lock is not None:
        log.info("removing the spool of %s, which is gone", folder.name)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _try_lock(folder: Path) -> int | None:
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
