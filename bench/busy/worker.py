"""``python -m bench.busy.worker``: a real worker with a slow store, which may do one thing after the other."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

import worker.child as child
from shared.logs import configure_logging
from shared.settings import Settings, settings
from shared.storage import Store, open_store
from worker.choose import Here, Pace
from worker.next_job import NextJob
from worker.run_worker import run_worker
from worker.spool import Spooled
from worker.upload import Uploads


class SlowStore:
    """Another store, each of whose writes takes so much longer."""

    def __init__(self, store: Store, put_s: float) -> None:
        self._store = store
        self._put_s = put_s

    def put(self, key: str, data: bytes, content_type: str) -> None:
        """Wait, then write."""
        time.sleep(self._put_s)
        self._store.put(key, data, content_type)

    def get(self, key: str) -> bytes:
        """As the other."""
        return self._store.get(key)

    def delete(self, key: str) -> None:
        """As the other."""
        self._store.delete(key)

    def list(self, prefix: str) -> Iterator[str]:
        """As the other."""
        return self._store.list(prefix)

    def link(self, key: str, lifetime_s: int, content_type: str | None = None) -> str:
        """As the other."""
        return self._store.link(key, lifetime_s, content_type)

    def check(self) -> None:
        """As the other."""
        self._store.check()


class UploadsAtOnce(Uploads):
    """Each job is encoded and uploaded before the next one is claimed."""

    def add(self, spooled: Spooled) -> None:
        """Carry it here and now."""
        self._carry(spooled)


class NoNextJob(NextJob):
    """Nothing is made ready ahead."""

    def look_ahead(self, here: Here, pace: Pace) -> None:
        """Do nothing."""


def main() -> int:
    """Run it until it is told to stop; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.busy.worker")
    parser.add_argument("--base-model", required=True)
    parser.add_argument("--put-ms", type=int, required=True)
    parser.add_argument("--one-after-the-other", action="store_true")
    options = parser.parse_args()

    def open_slow(settings: Settings) -> Store:
        return SlowStore(open_store(settings), options.put_ms / 1000)

    configure_logging()
    child.open_store = open_slow  # type: ignore[attr-defined]
    if options.one_after_the_other:
        child.Uploads = UploadsAtOnce  # type: ignore[attr-defined]
        child.NextJob = NoNextJob  # type: ignore[attr-defined]
    return run_worker(settings(), options.base_model)


if __name__ == "__main__":
    sys.exit(main())
