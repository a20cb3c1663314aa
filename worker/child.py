"""The one child of a worker: loads the model, takes tickets, serves jobs. Torch is touched only here."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from shared.catalogue import BaseModelEntry
from shared.errors import SetupError, Unavailable
from shared.meters import Meter, Meters
from shared.presence import Presence
from shared.queue import Queue
from shared.receipt import signer_of
from shared.receipt_keys import ReceiptKeys
from shared.registry import Registry
from shared.server import connect_worker
from shared.settings import Settings
from shared.storage import open_store
from shared.tickets import Tickets, base_queue
from worker.beat import Beat
from worker.busy import Busy
from worker.choose import Limits
from worker.fetch import Fetcher
from worker.flags import Flags
from worker.lease import Interrupted
from worker.next_job import NextJob
from worker.path import Desk, serve_one
from worker.persist import persist
from worker.prefetch import Prefetcher
from worker.spool import Spool
from worker.supply import Supply
from worker.tally import Tally
from worker.upload import Uploads

log = logging.getLogger(__name__)

REGISTER_BUDGET_S = 3600.0
MOST_SHOWN = 32
"""Of the adapters in memory so many are named."""
MOST_FAULTS = 3
"""After so many jobs in a row that failed through no fault of their own, the device itself may be poisoned."""


class Child:
    """Made in the parent; ``start``, ``ticket`` and ``stop`` run in the child."""

    def __init__(
        self,
        name: str,
        entry: BaseModelEntry,
        settings: Settings,
        flags: Flags,
        spool: Spool,
        identity: Mapping[str, object],
    ) -> None:
        self._name = name
        self._identity = identity
        self._entry = entry
        self._settings = settings
        self._flags = flags
        self._spool = spool
        self._desk: Desk | None = None

    def start(self) -> None:
        """Load and warm the model, resume uploads, say that tickets may come. Ends the process if it cannot."""
        # The parent passes a shutdown on through a flag; a signal to the whole group must not end a job midway.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            self._start()
        except SetupError as error:
            log.error("%s", error.message)
            self._fail(error.exit_status)
        except Exception:
            log.exception("the model could not be loaded")
            self._fail(1)

    def ticket(self) -> None:
        """Serve one job if one waits, and ring again while more do."""
        if self._desk is None or self._flags.stop_at_s:
            return
        try:
            job = serve_one(self._desk, lambda job: self._beat.say(state="busy", job=job.id))
            if job is None:
                # Nothing waits, or this worker may not have it now: if it may later, reclaim rings.
                self._desk.busy.waits(False)
                return
            waiting = self._desk.queue.depth(self._entry.name)
            self._desk.busy.waits(waiting > 0)
            self._tell(state="idle", job="")
            if waiting:
                self._tickets.ring_if_quiet(base_queue(self._entry.name))
        except Unavailable as error:
            log.warning("%s", error.message)
        if self._desk.faults >= MOST_FAULTS:
            log.error("%d jobs in a row failed here through no fault of their own; starting afresh", MOST_FAULTS)
            os._exit(1)

    def stop(self) -> None:
        """Join what is being uploaded."""
        if self._desk is not None:
            self._desk.prefetcher.stop()
            self._desk.next_job.stop()
            self._desk.uploads.close(max(1.0, self._flags.stop_at_s - time.monotonic()))
            self._beat.stop()

    def _start(self) -> None:
        # Here, because torch must not be imported in the parent.
        from worker.builtin import builtin_adapters, registered
        from worker.engine import DiffusersEngine

        started_s = time.monotonic()
        log.info("loading %s", self._entry.name)
        engine = DiffusersEngine.load(
            self._entry, memory_bytes=self._settings.adapter_memory_bytes, tell=self._starting
        )
        loaded_s = time.monotonic()
        log.info("%s runs with the recipe %s: %s", self._entry.name, engine.plan.recipe_name, engine.plan.why)
        engine.warm()
        warm_s = time.monotonic()
        load_ms, warmup_ms = round((warm_s - started_s) * 1000), round((warm_s - loaded_s) * 1000)
        log.info("%s is loaded and warm after %.1f s", self._entry.name, load_ms / 1000)

        client = connect_worker(self._settings)
        queue = Queue(client, self._settings)
        self._tickets = Tickets(self._settings)
        store = open_store(self._settings)
        signer = signer_of(self._settings)
        persist(partial(ReceiptKeys(client).publish, signer), time.monotonic() + REGISTER_BUDGET_S)
        uploads = Uploads(
            queue,
            store,
            self._spool,
            self._settings.upload_budget_s,
            self._tickets.ring_notifier,
            signer.signed,
            lambda: self._flags.stop_at_s,
        )
        for spooled in self._spool.pending():
            log.info("resuming the upload of job %s", spooled.job_id)
            # Told to stop meanwhile: `stop` hands back what found no room.
            with suppress(Interrupted):
                uploads.add(spooled)
        builtin = builtin_adapters(self._entry)
        settings = self._settings
        tally = Tally()
        supply = Supply(engine, Fetcher.of(settings), builtin, settings.adapter_folder, tally)
        registry = Registry(client)
        for adapter in registered(engine, self._entry, builtin):
            persist(partial(registry.put, adapter), time.monotonic() + REGISTER_BUDGET_S)
            supply.learn(adapter.admitted(), adapter.sha256 or "")
        limits = Limits(settings.streak_max, settings.overtake_max, settings.payback, settings.slack_jobs)
        prefetcher = Prefetcher(
            self._entry.name,
            self._name,
            queue,
            registry,
            supply,
            tally,
            limits,
            settings.prefetch_groups,
            lambda: self._flags.stop_at_s,
            self._tell,
        )
        busy = Busy()
        next_job = NextJob(
            self._entry.name,
            self._name,
            queue,
            supply,
            limits,
            busy,
            lambda: self._flags.stop_at_s,
            lambda job: None,
        )
        self._meters = Meters(client)
        self._desk = Desk(
            name=self._name,
            holder=holder_of(self._name, os.getpid()),
            entry=self._entry,
            queue=queue,
            engine=engine,
            spool=self._spool,
            uploads=uploads,
            limits=limits,
            lease_ms=settings.lease_ms,
            supply=supply,
            prefetcher=prefetcher,
            next_job=next_job,
            tally=tally,
            stop_at_s=lambda: self._flags.stop_at_s,
            busy=busy,
        )
        self._beat = Beat(
            Presence(client),
            self._name,
            lambda: bool(self._flags.stop_at_s),
            {
                **self._identity,
                "state": "idle",
                "job": "",
                "recipe": engine.recipe,
                "base_revision": engine.base_revision,
                "load_ms": load_ms,
                "warmup_ms": warmup_ms,
                **account_of(self._desk),
            },
        )
        self._beat.start()
        prefetcher.start()
        next_job.start()
        self._flags.ready_pid = os.getpid()
        self._beat.say()
        self._tickets.ring_if_quiet(base_queue(self._entry.name))

    def _starting(self, stage: str) -> None:
        log.info("%s: %s", self._entry.name, stage)

    def _fail(self, status: int) -> None:
        self._flags.exit_status = status
        os._exit(status)

    def _tell(self, **changes: object) -> None:
        """Report what the desk has come to, and what was counted."""
        if self._desk is None:
            return
        self._beat.say(**changes, **account_of(self._desk))
        desk, memory = self._desk, self._desk.engine.memory
        elsewhere: dict[Meter, int] = {
            "convert_count": memory.made,
            "convert_us": round(memory.made_s * 1e6),
            "recompiles": desk.engine.recompiles,
        }
        # What is not taken now is sent the next time.
        with suppress(Unavailable):
            desk.tally.send(partial(self._meters.add, self._entry.name), elsewhere)


def account_of(desk: Desk) -> dict[str, object]:
    """What a worker says of itself between jobs."""
    memory = desk.engine.memory
    return {
        "resident": desk.resident_sources,
        "resident_group": desk.resident,
        "warm": desk.supply.shown(MOST_SHOWN),
        "warm_adapters": len(memory.sha256s),
        "warm_bytes": memory.size_bytes,
        "swaps": desk.swaps,
        "jobs": desk.jobs,
        "recompiles": desk.engine.recompiles,
        "busy_ratio": None if (ratio := desk.busy.ratio) is None else round(ratio, 4),
    }


def holder_of(worker: str, child_pid: int) -> str:
    """Name under which one child of a worker holds jobs."""
    return f"{worker}#{child_pid}"
