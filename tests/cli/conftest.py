"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.api_server import ApiServer, running_api_server


@pytest.fixture
def api() -> Iterator[ApiServer]:
    """A small server in the API's place, for what the real one does only by accident."""
    with running_api_server() as server:
        yield server
