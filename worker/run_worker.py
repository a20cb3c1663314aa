"""A worker process: a parent that stays responsive and one child that holds the model."""

from __future__ import annotations

import logging
import os
import socket
import time

from shared.catalogue import read_catalogue
from shared.errors import QueueUnavailable
from shared.job import RECORD_VERSION
from shared.outbox import Outbox
from shared.queue import Queue
from shared.reclaim import Reclaimer
from shared.server import check_server, connect_worker
from shared.settings import Settings
from shared.storage import open_store
from shared.tickets import Service, Tickets, base_queue, serve
from shared.version import VERSION
from worker.child import Child
from worker.flags import Flags
from worker.forking import fork_between_lookups
from worker.spool import Spool
from worker.steward import Steward

log = logging.getLogger(__name__)


def run_worker(settings: Settings, base_model: str) -> int:
    """Serve one base model until told to stop; returns the exit status. ``SetupError`` when it cannot start."""
    catalogue = read_catalogue(settings.catalogue)
    entry = catalogue.get(base_model)
    await_server(settings)
    name = f"{base_model}-{os.getpid()}@{socket.gethostname()}"
    flags = Flags()
    spool = Spool(settings.data_folder / "spool", name)
    spool.own()
    identity = {
        "base_model": base_model,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "version": VERSION,
        "record_version": RECORD_VERSION,
        "started_ms": round(time.time() * 1000),
    }
    child = Child(name, entry, settings, flags, spool, identity)
    steward = Steward(name, identity, settings, flags, spool)
    reclaimer = make_reclaimer(settings)

    def on_stopping() -> None:
        flags.stop_at_s = time.monotonic() + settings.stop_grace_s

    # These threads look the server up at any time, also while the pool forks a child anew.
    fork_between_lookups()
    steward.start()
    reclaimer.start()
    try:
        status = serve(
            settings,
            Service(
                name=name,
                queue=base_queue(base_model),
                pool="prefork",
                on_ticket=child.ticket,
                ready=steward.ready,
                child_start=child.start,
                child_stop=child.stop,
                on_stopping=on_stopping,
                time_limit_s=settings.job_time_limit_s,
            ),
        )
    finally:
        reclaimer.stop()
        steward.stop()
        spool.remove_all()
    log.info("worker %s stopped", name)
    return flags.exit_status or status


def make_reclaimer(settings: Settings) -> Reclaimer:
    """The reclaim timer of this process."""
    client = connect_worker(settings)
    return Reclaimer(Queue(client, settings), Outbox(client, settings), Tickets(settings), open_store(settings))


def await_server(settings: Settings) -> None:
    """Wait until the job server answers, then check it; ``ServerRefused`` when it can lose jobs."""
    with connect_worker(settings) as client:
        while True:
            try:
                check_server(client, settings)
            except QueueUnavailable as error:
                log.warning("%s", error.message)
                time.sleep(2)
            else:
                return
