"""The one child of a worker: loads the model, takes tickets, serves jobs. Torch is touched only here."""

from __future__ import annotations

import logging
import os
import time
from functools import partial

from shared.catalogue import BaseModelEntry
from shared.errors import HotslotError, SetupError, Unavailable
from shared.job import Job
from shared.presence import Presence
from shared.queue import Queue
from shared.registry import Registry
from shared.server import connect_worker
from shared.settings import Settings
from shared.storage import open_store
from shared.tickets import Tickets, base_queue
from worker.choose import Limits
from worker.flags import Flags
from worker.path import Desk, serve_one
from worker.persist import persist
from worker.spool import Spool
from worker.upload import Uploads

log = logging.getLogger(__name__)

REGISTER_BUDGET_S = 3600.0


class Child:
    """Made in the parent; ``start``, ``ticket`` and ``stop`` run in the child."""

    def __init__(self, name: str, entry: BaseModelEntry, settings: Settings, flags: Flags, spool: Spool) -> None:
        self._name = name
        self._entry = entry
        self._settings = settings
        self._flags = flags
        self._spool = spool
        self._desk: Desk | None = None

    def start(self) -> None:
        """Load and warm the model, resume uploads, say that tickets may come. Ends the process if it cannot."""
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
            job = serve_one(self._desk, self._busy)
            if job is not None:
                self._report_idle()
            if self._desk.queue.depth(self._entry.name):
                self._tickets.ring_if_quiet(base_queue(self._entry.name))
        except Unavailable as error:
            log.warning("%s", error.message)

    def stop(self) -> None:
        """Join what is being uploaded."""
        if self._desk is not None:
            self._desk.uploads.close(self._settings.stop_grace_s)

    def _start(self) -> None:
        # Here, because torch must not be imported in the parent.
        from worker.builtin import builtin_adapters, registered
        from worker.engine import DiffusersEngine

        started_s = time.monotonic()
        log.info("loading %s", self._entry.name)
        engine = DiffusersEngine.load(self._entry, self._settings.cache_folder)
        engine.warm()
        load_ms = round((time.monotonic() - started_s) * 1000)
        log.info("%s is loaded and warm after %.1f s", self._entry.name, load_ms / 1000)

        client = connect_worker(self._settings)
        queue = Queue(client, self._settings)
        self._presence = Presence(client)
        self._tickets = Tickets(self._settings)
        store = open_store(self._settings)
        uploads = Uploads(queue, store, self._spool, self._settings.upload_budget_s, self._tickets.ring_notifier)
        for spooled in self._spool.pending():
            log.info("resuming the upload of job %s", spooled.job_id)
            uploads.add(spooled)
        builtin = builtin_adapters(self._entry, self._settings.cache_folder)
        registry = Registry(client)
        for adapter in registered(engine, self._entry, builtin):
            persist(partial(registry.put, adapter), time.monotonic() + REGISTER_BUDGET_S)
        settings = self._settings
        self._desk = Desk(
            name=self._name,
            entry=self._entry,
            queue=queue,
            engine=engine,
            spool=self._spool,
            uploads=uploads,
            limits=Limits(settings.streak_max, settings.slack_ms, settings.overtake_max),
            lease_ms=settings.lease_ms,
            builtin_adapters=builtin,
            adapter_folder=settings.adapter_folder,
            stop_at_s=lambda: self._flags.stop_at_s,
        )
        self._report(state="idle", recipe=engine.recipe, base_revision=engine.base_revision, load_ms=load_ms, job="")
        self._flags.ready_pid = os.getpid()
        self._tickets.ring_if_quiet(base_queue(self._entry.name))

    def _fail(self, status: int) -> None:
        self._flags.exit_status = status
        os._exit(status)

    def _busy(self, job: Job) -> None:
        self._report(state="busy", job=job.id)

    def _report_idle(self) -> None:
        desk = self._desk
        if desk is not None:
            self._report(
                state="idle",
                job="",
                resident=desk.resident_sources,
                resident_group=desk.resident,
                swaps=desk.swaps,
                jobs=desk.jobs,
            )

    def _report(self, **fields: object) -> None:
        try:
            self._presence.report(self._name, round(time.time() * 1000), base_model=self._entry.name, **fields)
        except HotslotError as error:
            log.debug("presence was not reported: %s", error.message)
