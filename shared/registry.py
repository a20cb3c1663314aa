"""Adapters registered by name: which base model each is for, and which bytes the name means now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import cast

import redis
from pydantic import BaseModel, ConfigDict

from shared import keys
from shared.adapters.inspection import Inspection
from shared.job import PinnedAdapter
from shared.server import fields_of, reached


class RegisteredAdapter(BaseModel):
    """One registered adapter. ``location``, ``revision`` and ``sha256`` are as in ``shared.job.PinnedAdapter``."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    base_model: str
    sha256: str | None
    location: str
    revision: str | None = None
    rank: int
    """Largest rank over its layers."""
    inspection: Inspection | None = None
    """What was seen when it was registered; None for what comes with a base model."""

    def admitted(self, scale: float = 1.0) -> PinnedAdapter:
        """What a job that names it is held to."""
        return PinnedAdapter(
            source=self.name, scale=scale, sha256=self.sha256, location=self.location, revision=self.revision
        )


class Registry:
    """Registered adapters on one server; raises ``QueueUnavailable`` when it is not reached."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client

    def put(self, adapter: RegisteredAdapter) -> None:
        """Register or replace. Queued jobs keep the hash they were admitted with, and never run with other bytes."""
        with reached():
            self._redis.hset(keys.ADAPTERS(), adapter.name, adapter.model_dump_json())

    def remove(self, name: str) -> bool:
        """Forget the name and its pin, if it was known. Queued jobs keep what they were admitted with."""
        with reached(), self._redis.pipeline(transaction=True) as pipe:
            pipe.hdel(keys.ADAPTERS(), name)
            pipe.hdel(keys.PINNED(), name)
            return bool(pipe.execute()[0])

    def pin(self, name: str, now_ms: int) -> None:
        """Let workers keep what this name means in memory, also once it is registered anew."""
        with reached():
            self._redis.hset(keys.PINNED(), name, now_ms)

    def unpin(self, name: str) -> None:
        """Let workers evict it."""
        with reached():
            self._redis.hdel(keys.PINNED(), name)

    def pinned(self) -> frozenset[str]:
        """Names that are pinned."""
        with reached():
            return frozenset(cast("list[str]", self._redis.hkeys(keys.PINNED())))

    def pinned_for(self, base_model: str) -> list[RegisteredAdapter]:
        """What is pinned for this base model, by name."""
        found = self.some(sorted(self.pinned()))
        return [adapter for adapter in found.values() if adapter.base_model == base_model]

    def all(self) -> dict[str, RegisteredAdapter]:
        """Every registered adapter by name."""
        found = fields_of(self._redis, keys.ADAPTERS())
        return {name: _read(text) for name, text in found.items()}

    def some(self, names: Sequence[str]) -> dict[str, RegisteredAdapter]:
        """Those of these names that are registered."""
        if not names:
            return {}
        with reached():
            found = cast("list[str | None]", self._redis.hmget(keys.ADAPTERS(), list(names)))
        return {name: _read(text) for name, text in zip(names, found, strict=True) if text is not None}

    def looked_up(self, names: Sequence[str]) -> Mapping[str, RegisteredAdapter]:
        """The registry as one request sees it: these names are read now, all others only if it lists them.

        There may be thousands, and a request names four at most.
        """
        return _LookedUp(self, names)


class _LookedUp(Mapping[str, RegisteredAdapter]):
    def __init__(self, registry: Registry, names: Sequence[str]) -> None:
        self._registry = registry
        self._names = frozenset(names)
        self._some = registry.some(names)

    @cached_property
    def _all(self) -> dict[str, RegisteredAdapter]:
        return self._registry.all()

    def __getitem__(self, name: str) -> RegisteredAdapter:
        return (self._some if name in self._names else self._all)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


def _read(text: str) -> RegisteredAdapter:
    return RegisteredAdapter.model_validate_json(text)
