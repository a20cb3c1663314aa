"""The whole Redis keyspace: each key's name, type, owner and lifetime. No other file spells a key.

The Lua scripts get these names too: ``lua_functions`` turns each template into a function ``k_NAME(...)``.
Celery's broker keeps its own keys beside these (lists named after its queues, ``_kombu.*``, ``unacked*``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

RedisType = Literal["hash", "zset", "stream", "string"]


@dataclass(frozen=True)
class Key:
    """One kind of key. Calling it with the template's parts gives the name."""

    name: str
    template: str
    type: RedisType
    owner: str
    lifetime: str

    @property
    def parts(self) -> list[str]:
        """Names of the template's placeholders, in order."""
        return re.findall(r"{(\w+)}", self.template)

    def __call__(self, *values: str) -> str:
        """The name of one key; as many values as the template has parts."""
        if len(values) != len(self.parts):
            raise TypeError(f"{self.name} takes {self.parts}, not {values}")
        return self.template.format(**dict(zip(self.parts, values, strict=True)))


JOB = Key("job", "hotslot:job:{job}", "hash", "queue", "retention after the job's end")
EVENTS = Key("events", "hotslot:events:{job}", "stream", "queue", "retention after the job's end; capped")
INDEX = Key("index", "hotslot:index:{status}", "zset", "queue", "empty when unused; ended jobs: twice retention")
IDEMPOTENCY = Key("idempotency", "hotslot:idempotency:{tenant}:{key}", "hash", "queue", "24 h")

QUEUES = Key("queues", "hotslot:queues", "zset", "queue", "while jobs wait")
WAITING = Key("waiting", "hotslot:queue:{base}:waiting", "zset", "queue", "while jobs of the base model wait")
HEADS = Key("heads", "hotslot:queue:{base}:heads", "zset", "queue", "while jobs of the base model wait")
GROUP = Key("group", "hotslot:queue:{base}:group:{group}", "zset", "queue", "while jobs of the group wait")
CLAIMS = Key("claims", "hotslot:queue:{base}:claims", "zset", "queue", "while jobs of the base model wait")
RESIDENTS = Key("residents", "hotslot:queue:{base}:residents", "hash", "queue", "1 h after the last claim")
MARKS = Key("marks", "hotslot:queue:{base}:marks", "hash", "queue", "one lifetime of a mark after the last")
SHARES = Key("shares", "hotslot:queue:{base}:shares", "hash", "queue", "while jobs of the base model wait")
PAUSED = Key("paused", "hotslot:queue:{base}:paused", "string", "queue", "kept: until the queue is resumed")
DRAINED = Key(
    "drained", "hotslot:drained:{worker}", "string", "queue", "until resumed; 1 h after the worker's last beat"
)
STATS = Key("stats", "hotslot:stats:{base}", "hash", "queue", "kept: three counters and two clocks per base model")

CLAIM = Key("claim", "hotslot:claim:{token}", "string", "queue", "10 minutes")

LEASES = Key("leases", "hotslot:leases", "zset", "queue", "while jobs run")
DEADLINES = Key("deadlines", "hotslot:deadlines", "zset", "queue", "while jobs with a deadline are not ended")
OBJECTS = Key("objects", "hotslot:objects", "zset", "queue", "while uploads are not confirmed by their job's end")
TIMER_LOCK = Key("timer_lock", "hotslot:timer:{timer}", "string", "reclaim", "one period")
SERVER_RUN = Key("server_run", "hotslot:reclaim:server", "string", "reclaim", "kept: one run id")

OUTBOX = Key("outbox", "hotslot:outbox", "zset", "outbox", "while events wait for delivery")
OUTBOX_HEADS = Key("outbox_heads", "hotslot:outbox:heads", "zset", "outbox", "while events wait for delivery")
OUTBOX_LINE = Key("outbox_line", "hotslot:outbox:line:{endpoint}", "zset", "outbox", "while events wait for it")
OUTBOX_ROW = Key("outbox_row", "hotslot:outbox:row:{event}", "hash", "outbox", "until delivered; dead: retention")
OUTBOX_DEAD = Key("outbox_dead", "hotslot:outbox:dead", "zset", "outbox", "retention after the last dead event")

WORKER = Key("worker", "hotslot:worker:{worker}", "hash", "presence", "15 s after the last beat")
WORKERS = Key("workers", "hotslot:workers", "zset", "presence", "15 s after the last beat")
NOTIFIER = Key("notifier", "hotslot:notifier:{host}", "string", "presence", "15 s after the last beat")
ADAPTERS = Key("adapters", "hotslot:adapters", "hash", "registry", "kept: one field per registered name")
PINNED = Key("pinned", "hotslot:adapters:pinned", "hash", "registry", "kept: one field per pinned name, when it was")
METERS = Key("meters", "hotslot:meters:{base}", "hash", "meters", "kept: a dozen counters per base model")

RECEIPT_KEYS = Key("receipt_keys", "hotslot:receipt-keys", "hash", "receipt keys", "kept: one field per signing key")

ALL = tuple(value for value in globals().copy().values() if isinstance(value, Key))


def lua_functions() -> str:
    """Lua source with one function per key, so that scripts need not spell a name."""
    return "\n".join(_lua_function(key) for key in ALL)


def _lua_function(key: Key) -> str:
    pieces = re.split(r"({\w+})", key.template)
    body = " .. ".join(piece[1:-1] if piece.startswith("{") else f"'{piece}'" for piece in pieces if piece)
    return f"local function k_{key.name}({', '.join(key.parts)}) return {body} end"
