"""Which workers and notifiers live, and what each worker holds: keys that vanish when their owner stops beating."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, cast

import redis
from pydantic import BaseModel, BeforeValidator, ConfigDict

from shared import keys
from shared.scripts import Scripts
from shared.server import members_of, reached

ALIVE_MS = 15_000
BEAT_MS = 3_000
DRAINED_MS = 3_600_000
"""A worker that has not been seen for so long is not held back any more: its name will hardly come again."""

Ratio = Annotated[float | None, BeforeValidator(lambda said: None if said in ("", "None") else said)]
"""From 0 to 1; None as it is reported where nothing was measured."""

State = Literal["starting", "idle", "busy", "stopping"]


class WorkerInfo(BaseModel):
    """One worker as last reported. Times are Unix milliseconds.

    ``resident``: sources in its slot. ``warm``: sources in its memory, last used first, the first few.
    ``busy_ratio``: share of the last minutes, as far as jobs waited, in which its denoiser ran.
    ``record_version``: newest version of job records that it knows.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    base_model: str
    state: State
    host: str = ""
    pid: int = 0
    version: str = ""
    record_version: int = 1
    recipe: str = ""
    base_revision: str = ""
    started_ms: int = 0
    seen_ms: int = 0
    job: str = ""
    resident: tuple[str, ...] = ()
    resident_group: str = ""
    warm: tuple[str, ...] = ()
    warm_adapters: int = 0
    warm_bytes: int = 0
    swaps: int = 0
    jobs: int = 0
    load_ms: int = 0
    warmup_ms: int = 0
    recompiles: int = 0
    busy_ratio: Ratio = None


class Presence:
    """Reports and reads; every method raises ``QueueUnavailable`` when the server is not reached."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client
        self._scripts = Scripts(client)

    def report(self, worker: str, **fields: Any) -> None:
        """Set some fields of a worker and keep it alive for ``ALIVE_MS`` more, by the server's clock."""
        values = {name: json.dumps(value) if isinstance(value, tuple) else str(value) for name, value in fields.items()}
        self._scripts.run("report", worker=worker, fields=values, alive_ms=ALIVE_MS, drained_ms=DRAINED_MS)

    def leave(self, worker: str) -> None:
        """Forget a worker that stops."""
        with reached(), self._redis.pipeline() as pipe:
            pipe.delete(keys.WORKER(worker))
            pipe.zrem(keys.WORKERS(), worker)
            pipe.execute()

    def report_notifier(self, host: str) -> None:
        """Say for ``ALIVE_MS`` that a notifier on this host can deliver."""
        with reached():
            self._redis.set(keys.NOTIFIER(host), 1, px=ALIVE_MS)

    def notifier_lives(self, host: str) -> bool:
        """Whether a notifier on this host reported lately."""
        with reached():
            return bool(self._redis.exists(keys.NOTIFIER(host)))

    def states(self) -> list[tuple[str, State]]:
        """Base model and state of each of them. In one round trip, because every submit asks."""
        fields = [f"{keys.WORKER('*')}->{field}" for field in ("base_model", "state")]
        with reached():
            rows = cast(
                "list[tuple[str | None, State | None]]",
                self._redis.sort(keys.WORKERS(), by="nosort", get=fields, groups=True),
            )
        return [(base_model, state) for base_model, state in rows if base_model and state]

    def alive(self) -> list[WorkerInfo]:
        """Workers that reported lately, by name."""
        names = members_of(self._redis, keys.WORKERS())
        with reached(), self._redis.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hgetall(keys.WORKER(name))
            found: list[dict[str, str]] = pipe.execute()
        # Between a hash's end and the set's, a name can be there without its fields.
        whole = (fields for fields in found if {"name", "base_model", "state"} <= fields.keys())
        return sorted((_read(fields) for fields in whole), key=lambda worker: worker.name)


def _read(fields: dict[str, str]) -> WorkerInfo:
    lists = {name: json.loads(fields.get(name, "[]")) for name in ("resident", "warm")}
    return WorkerInfo.model_validate(fields | lists)
