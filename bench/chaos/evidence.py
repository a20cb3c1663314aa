"""What is found of a run when it has settled: read from the API, the job server, the bucket and the receiver."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from bench.chaos.receiver import Call
from bench.chaos.traffic import Followed
from cli.client import Client
from shared import keys
from shared.errors import ImageNotFound, JobNotFound, Unavailable
from shared.job import TERMINAL, Job, Status
from shared.queue import Queue
from shared.server import connect_worker, members_of
from shared.settings import Settings
from shared.storage import Store, open_store
from shared.view import JobView

TRIES = 3
SCAN_COUNT = 1000
T = TypeVar("T")


@dataclass(frozen=True)
class JobEvidence:
    """One accepted job. ``record`` and ``view`` are None where the service does not know it any more.

    ``ends``: terminal events in its own stream. ``stored_sha256``: of its objects, as read from the bucket; None: gone.
    """

    followed: Followed
    record: Job | None
    view: JobView | None
    ends: tuple[str, ...]
    stored_sha256: tuple[str | None, ...]


@dataclass(frozen=True)
class Evidence:
    """All of it. ``keys_left``: (name, PTTL) of every key. ``jobs_known``: how many records the server holds."""

    jobs: Sequence[JobEvidence]
    jobs_known: int
    receipt_keys: Mapping[str, str]
    calls: Sequence[Call]
    objects: frozenset[str]
    keys_left: Sequence[tuple[str, int]]
    leases: int
    events_waiting: int


@dataclass(frozen=True)
class Rest:
    """What has not come to its end yet."""

    jobs: int
    leases: int
    events: int
    uploads: int

    @property
    def none(self) -> bool:
        """Whether all work is done."""
        return not (self.jobs or self.leases or self.events or self.uploads)


class Look:
    """Looks at a stack from outside, past its programs."""

    def __init__(self, settings: Settings) -> None:
        self._redis = connect_worker(settings)
        self._queue = Queue(self._redis, settings)
        self._store = open_store(settings)

    def rest(self) -> Rest:
        """What is not done yet; raises QueueUnavailable."""
        open_jobs = sum(
            int(self._redis.zcard(keys.INDEX(status.value))) for status in Status if not status.terminal
        )  # fmt: skip
        leases, events, uploads = (
            int(self._redis.zcard(key)) for key in (keys.LEASES(), keys.OUTBOX(), keys.OBJECTS())
        )
        return Rest(open_jobs, leases, events, uploads)

    def gather(self, followed: Sequence[Followed], client: Client, calls: Sequence[Call]) -> Evidence:
        """Everything, once nothing changes any more."""
        keys_left = [
            (str(name), int(self._redis.pttl(name))) for name in self._redis.scan_iter(count=SCAN_COUNT)
        ]  # fmt: skip
        records = keys.JOB("").rpartition(":")[0]
        return Evidence(
            jobs=[self._job(one, client) for one in followed],
            jobs_known=sum(name.startswith(f"{records}:") for name, _ in keys_left),
            receipt_keys=client.receipt_keys().by_id,
            calls=calls,
            objects=frozenset(self._store.list("jobs/")),
            keys_left=keys_left,
            leases=len(members_of(self._redis, keys.LEASES())),
            events_waiting=int(self._redis.zcard(keys.OUTBOX())),
        )

    def _job(self, one: Followed, client: Client) -> JobEvidence:
        record = _known(lambda: self._queue.get(one.id))
        stream = cast("list[tuple[str, dict[str, str]]]", self._redis.xrange(keys.EVENTS(one.id)))
        images = record.result.images if record and record.result else []
        return JobEvidence(
            followed=one,
            record=record,
            view=_known(lambda: client.job(one.id)),
            ends=tuple(fields["type"] for _, fields in stream if fields["type"] in TERMINAL),
            stored_sha256=tuple(_sha256(self._store, image.key) for image in images),
        )


def _known(read: Callable[[], T]) -> T | None:
    for last in (False, False, True):
        try:
            return read()
        except JobNotFound:
            return None
        except Unavailable:
            if last:
                raise
    return None


def _sha256(store: Store, key: str) -> str | None:
    try:
        return hashlib.sha256(store.get(key)).hexdigest()
    except ImageNotFound:
        return None
