"""Connections to the Redis or Valkey server, and the checks that a server must pass.

redis-py is used only in ``shared/``; everything that touches the server translates its errors with ``reached``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import redis
import redis.asyncio
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff
from redis.retry import Retry

from shared.errors import QueueUnavailable, ServerRefused
from shared.settings import Settings

_NOT_REACHED = (redis.ConnectionError, redis.TimeoutError, OSError)
# A server that answers, but cannot take writes now; anything else redis-py raises is a bug of ours and must surface.
_NOT_NOW = (redis.exceptions.OutOfMemoryError, redis.ReadOnlyError, redis.exceptions.MasterDownError)
_NOT_NOW_CODES = ("BUSY", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM", "READONLY", "TRYAGAIN")


def connect_api(settings: Settings) -> redis.Redis:
    """A client that gives up within 2 s, so that a caller gets an answer while the server is down."""
    return redis.Redis.from_url(
        settings.redis_url.get_secret_value(),
        decode_responses=True,
        socket_connect_timeout=0.8,
        socket_timeout=0.9,
        # One more try, because pooled connections of a restarted server fail once.
        retry=Retry(NoBackoff(), 1),
    )


def connect_worker(settings: Settings) -> redis.Redis:
    """A client for workers: patient with a slow server, a few quick retries, then the caller decides."""
    return redis.Redis.from_url(
        settings.redis_url.get_secret_value(),
        decode_responses=True,
        socket_connect_timeout=2,
        socket_timeout=5,
        retry=Retry(ExponentialWithJitterBackoff(cap=0.5, base=0.05), 3),
    )


def connect_async(settings: Settings, most_connections: int = 100) -> redis.asyncio.Redis:
    """A client for long waits on event streams; its reads may block for a minute, one connection each."""
    return redis.asyncio.Redis.from_url(
        settings.redis_url.get_secret_value(),
        decode_responses=True,
        socket_connect_timeout=0.8,
        socket_timeout=None,
        max_connections=most_connections,
    )


def fields_of(client: redis.Redis, key: str) -> dict[str, str]:
    """A whole hash. The clients here decode every answer, which redis-py's types do not know."""
    with reached():
        return cast("dict[str, str]", client.hgetall(key))


def members_of(client: redis.Redis, key: str, first: int = 0, last: int = -1) -> list[str]:
    """A range of a sorted set's members, lowest score first."""
    with reached():
        return cast("list[str]", client.zrange(key, first, last))


@contextmanager
def reached() -> Iterator[None]:
    """Turn errors that pass into ``QueueUnavailable``: the server is away, full, read-only or busy.

    The address stays out of the message.
    """
    try:
        yield
    except _NOT_REACHED as error:
        raise QueueUnavailable(
            "The job server (Redis or Valkey) does not answer; try again in a few seconds."
        ) from error
    except redis.ResponseError as error:
        if not isinstance(error, _NOT_NOW) and not str(error).startswith(_NOT_NOW_CODES):
            raise
        raise QueueUnavailable(
            "The job server (Redis or Valkey) takes no writes now (full, read-only or busy); try again soon."
        ) from error


def check_server(client: redis.Redis, settings: Settings) -> None:
    """Refuse a server that can lose jobs: Cluster, an eviction policy, or no append-only file.

    Reads ``INFO`` only, because managed servers forbid ``CONFIG``.
    """
    try:
        with reached():
            info = client.info("everything")
    except QueueUnavailable as error:
        if isinstance(error.__cause__, redis.AuthenticationError):
            raise ServerRefused("The server refuses the user or password in HOTSLOT_REDIS_URL.") from error
        raise
    if info.get("loading"):
        # Until it has read its file, a server says that it keeps none.
        raise QueueUnavailable(
            "The job server (Redis or Valkey) is still loading its data; try again in a few seconds."
        )
    if info.get("cluster_enabled"):
        raise ServerRefused("Redis Cluster is not supported; use one server, or a replica set with Sentinel.")
    if not settings.redis_require_durable:
        return
    if info.get("maxmemory_policy") != "noeviction":
        raise ServerRefused(
            f"The server may evict jobs (maxmemory-policy {info.get('maxmemory_policy')}); set it to noeviction."
        )
    if not info.get("aof_enabled"):
        raise ServerRefused(
            "The server would forget jobs at a restart; turn on its append-only file (appendonly yes), "
            "or set HOTSLOT_REDIS_REQUIRE_DURABLE=false to accept that."
        )
