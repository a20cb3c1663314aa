"""One served app per file, on a server that is emptied before each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.embedded import EmbeddedServer
from shared.settings import Settings
from tests.adapter_bytes import SKETCH
from tests.api.live import Live, serving


@pytest.fixture(scope="session")
def api_settings(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    adapters = tmp_path_factory.mktemp("adapters")
    (adapters / "mine").mkdir()
    (adapters / "mine" / "sketch.safetensors").write_bytes(SKETCH)
    return settings_for(valkey.url, tmp_path_factory.mktemp("data")).model_copy(update={"adapter_folder": adapters})


def settings_for(redis_url: str, data_folder: Path) -> Settings:
    return Settings.model_validate(
        {
            "redis_url": redis_url,
            "data_folder": data_folder,
            "signing_key": "a key that is long enough",
            "webhook_secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            # No lease may end while a slow machine runs a test.
            "lease_ms": 600_000,
        }
    )


# Not for the session: its timers would reclaim, with their long leases, what other tests put on the same server.
@pytest.fixture(scope="module")
def _served(api_settings: Settings) -> Iterator[Live]:
    with serving(api_settings) as live:
        yield live


@pytest.fixture
def live(_served: Live, redis_url: str) -> Live:
    """The served app and an empty job server."""
    assert redis_url == _served.settings.redis_url.get_secret_value()
    return _served
