"""Which workers live, and what each holds: a hash per worker that vanishes when it stops beating."""

from __future__ import annotations

from typing import Any, Literal

import redis
from pydantic import BaseModel, ConfigDict

from shared import keys
from shared.server import fields_of, members_of, reached

ALIVE_MS = 15_000
BEAT_MS = 3_000

State = Literal["starting", "idle", "busy", "stopping"]


class WorkerInfo(BaseModel):
    """One worker as last reported. ``resident``: sources in its slot; times are Unix milliseconds."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    base_model: str
    state: State
    host: str = ""
    pid: int = 0
    version: str = ""
    recipe: str = ""
    base_revision: str = ""
    started_ms: int = 0
    seen_ms: int = 0
    job: str = ""
    resident: str = ""
    resident_group: str = ""
    swaps: int = 0
    jobs: int = 0
    load_ms: int = 0


class Presence:
    """Reports and reads; every method raises ``QueueUnavailable`` when the server is not reached."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client

    def report(self, worker: str, now_ms: int, **fields: Any) -> None:
        """Set some fields of a worker and keep it alive for ``ALIVE_MS`` more."""
        values: dict[Any, Any] = {"name": worker, "seen_ms": str(now_ms), **{k: str(v) for k, v in fields.items()}}
        with reached(), self._redis.pipeline() as pipe:
            pipe.hset(keys.WORKER(worker), mapping=values)
            pipe.pexpire(keys.WORKER(worker), ALIVE_MS)
            pipe.zadd(keys.WORKERS(), {worker: now_ms})
            pipe.zremrangebyscore(keys.WORKERS(), "-inf", now_ms - ALIVE_MS)
            pipe.pexpire(keys.WORKERS(), ALIVE_MS)
            pipe.execute()

    def leave(self, worker: str) -> None:
        """Forget a worker that stops."""
        with reached(), self._redis.pipeline() as pipe:
            pipe.delete(keys.WORKER(worker))
            pipe.zrem(keys.WORKERS(), worker)
            pipe.execute()

    def alive(self) -> list[WorkerInfo]:
        """Workers that reported lately, by name."""
        found = (fields_of(self._redis, keys.WORKER(name)) for name in members_of(self._redis, keys.WORKERS()))
        # A hash can be half there: its last beat came from a child whose parent has not reported yet.
        whole = (fields for fields in found if {"name", "base_model", "state"} <= fields.keys())
        return sorted((WorkerInfo.model_validate(fields) for fields in whole), key=lambda worker: worker.name)
