"""Adapters registered by name: which base model each is for, and which bytes the name means now."""

from __future__ import annotations

import redis
from pydantic import BaseModel, ConfigDict

from shared import keys
from shared.adapters.inspection import Inspection
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


class Registry:
    """Registered adapters on one server; raises ``QueueUnavailable`` when it is not reached."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client

    def put(self, adapter: RegisteredAdapter) -> None:
        """Register or replace. Queued jobs keep the hash they were admitted with, and never run with other bytes."""
        with reached():
            self._redis.hset(keys.ADAPTERS(), adapter.name, adapter.model_dump_json())

    def remove(self, name: str) -> bool:
        """Forget the name, if it was known. Queued jobs keep what they were admitted with."""
        with reached():
            return bool(self._redis.hdel(keys.ADAPTERS(), name))

    def all(self) -> dict[str, RegisteredAdapter]:
        """Every registered adapter by name."""
        found = fields_of(self._redis, keys.ADAPTERS())
        return {name: RegisteredAdapter.model_validate_json(text) for name, text in found.items()}
