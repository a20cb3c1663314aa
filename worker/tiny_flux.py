"""The built-in base model ``tiny-flux``: a real FLUX pipeline, small enough for any CPU, with four adapters.

It is made in code at first use and kept below the cache folder under a version that is bound to the code that makes
it, so other code makes another folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

NAME = "tiny-flux"

_SOURCES = ("tiny_flux_model.py", "tiny_flux_words.py", "tiny_flux_adapters.py")
_LIBRARIES = ("torch", "diffusers", "transformers", "tokenizers")


@dataclass(frozen=True)
class TinyFlux:
    """Where it lies: a diffusers folder, and the adapter files by name."""

    pipeline_folder: Path
    adapters: dict[str, Path]
    version: str


def tiny_flux_version() -> str:
    """Twelve hex digits, bound to the code that makes the weights and to the libraries that write them."""
    digest = hashlib.sha256()
    for source in _SOURCES:
        digest.update(Path(__file__).with_name(source).read_bytes())
    for library in _LIBRARIES:
        digest.update(f"{library}={version(library)};".encode())
    return digest.hexdigest()[:12]


def ensure_tiny_flux(cache_folder: Path) -> TinyFlux:
    """The model below ``cache_folder``, made now if it is not there; safe in several processes at once."""
    name = tiny_flux_version()
    root = cache_folder / NAME
    folder = root / name
    if not folder.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        with _locked(root / ".lock"):
            if not folder.is_dir():
                _make(root, folder)
    return _found(folder, name)


def _found(folder: Path, name: str) -> TinyFlux:
    files = sorted((folder / "adapters").glob("*.safetensors"))
    return TinyFlux(folder, {file.stem: file for file in files}, name)


def _make(root: Path, folder: Path) -> None:
    from worker.tiny_flux_adapters import write_adapters
    from worker.tiny_flux_model import build_pipeline, one_thread

    for abandoned in root.glob(".making-*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    making = Path(tempfile.mkdtemp(prefix=".making-", dir=root))
    try:
        with one_thread():
            pipeline = build_pipeline()
            pipeline.save_pretrained(making, safe_serialization=True)
            write_adapters(pipeline, making / "adapters")
        # Its name appears only when all of it is there.
        os.rename(making, folder)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
