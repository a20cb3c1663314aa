from __future__ import annotations

import pytest

from shared.catalogue import BaseModelEntry
from tests.worker.random_flux import RandomFlux, make_random_flux
from worker.engine import DiffusersEngine


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> RandomFlux:
    return make_random_flux(tmp_path_factory.mktemp("random-flux"))


@pytest.fixture(scope="session")
def entry(tiny: RandomFlux) -> BaseModelEntry:
    return tiny.entry


@pytest.fixture(scope="session")
def engine(entry: BaseModelEntry) -> DiffusersEngine:
    """One engine for all tests, like one worker for all jobs: what one leaves behind must not reach the next."""
    return DiffusersEngine.load(entry, threads=1)
