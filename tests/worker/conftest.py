from __future__ import annotations

from pathlib import Path

import pytest

from shared.catalogue import BaseModelEntry, read_catalogue
from worker.engine import DiffusersEngine
from worker.tiny_flux import TinyFlux, ensure_tiny_flux


@pytest.fixture(scope="session")
def entry() -> BaseModelEntry:
    return read_catalogue().get("tiny-flux")


@pytest.fixture(scope="session")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def tiny(cache_folder: Path) -> TinyFlux:
    return ensure_tiny_flux(cache_folder)


@pytest.fixture(scope="session")
def engine(entry: BaseModelEntry, cache_folder: Path, tiny: TinyFlux) -> DiffusersEngine:
    """One engine for all tests, like one worker for all jobs: what one leaves behind must not reach the next."""
    return DiffusersEngine.load(entry, cache_folder)
