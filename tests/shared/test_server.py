"""What the server says when it cannot, and what that means to a caller."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from shared.errors import QueueUnavailable, ServerRefused
from shared.queue import Queue
from shared.server import check_server, connect_api, connect_worker
from shared.settings import Settings
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
