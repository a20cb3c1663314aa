"""What the server says when it cannot, and what that means to a caller."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from shared.embedded import EmbeddedServer
from shared.embedded_program import find_program
from shared.errors import QueueUnavailable, ServerRefused
from shared.queue import Queue
from shared.server import check_server, connect_api, connect_worker
from shared.settings import Settings
from tests.receiver import until
from tests.shared.jobs import spec


@pytest.fixture
def config(redis_url: str) -> Settings:
    return Settings(redis_url=redis_url)


@pytest.fixture
def client(config: Settings) -> Iterator[redis.Redis]:
    with connect_worker(config) as client:
        yield client
        client.config_set("maxmemory", "0")
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("requirepass", "")
        client.replicaof("NO", "ONE")


def test_a_full_server(client: redis.Redis, config: Settings) -> None:
    client.config_set("maxmemory", "1")
    with pytest.raises(QueueUnavailable, match="no writes"):
        Queue(client, config).submit("job1", spec())


def test_a_read_only_server(client: redis.Redis, config: Settings, unused_port: int) -> None:
    client.replicaof("127.0.0.1", str(unused_port))
    with pytest.raises(QueueUnavailable, match="no writes"):
        Queue(client, config).submit("job1", spec())


def test_a_bug_of_ours_is_not_taken_for_an_outage(client: redis.Redis, config: Settings) -> None:
    client.set("hotslot:index:queued", "not a sorted set")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        Queue(client, config).submit("job1", spec())


def test_a_server_that_may_evict_jobs_is_refused(client: redis.Redis, config: Settings) -> None:
    check_server(client, config)
    client.config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(ServerRefused, match="noeviction"):
        check_server(client, config)


def test_a_wrong_password_is_refused_at_once_and_not_shown(client: redis.Redis, config: Settings) -> None:
    client.config_set("requirepass", "right")
    address = config.redis_url.get_secret_value().replace("redis://", "redis://:hunter2@")
    wrong = Settings(redis_url=address)
    with connect_api(wrong) as stranger, pytest.raises(ServerRefused, match="password") as refused:
        check_server(stranger, wrong)
    assert "hunter2" not in str(refused.value)


def test_a_server_that_still_loads_is_waited_for_and_not_refused(tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path) as server:
        config = Settings(redis_url=server.url)
        with connect_worker(config) as client, client.pipeline() as pipe:
            for number in range(1000):
                pipe.set(f"key{number}", "some words")
            pipe.execute()
            client.bgrewriteaof()
            until(lambda: client.info("persistence")["aof_base_size"] > 1000)
    # Each key takes it a while, and it answers in between.
    slowly = ["--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024"]
    command = [str(find_program()), "--port", str(server.port), "--dir", str(tmp_path), "--appendonly", "yes", *slowly]
    with (
        (tmp_path / "again.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path) as again,
        connect_worker(config) as client,
    ):
        try:
            found = []
            while True:
                try:
                    check_server(client, config)
                except QueueUnavailable as error:
                    found.append(error.message)
                else:
                    break
        finally:
            again.kill()
    assert any("still loading" in message for message in found)
