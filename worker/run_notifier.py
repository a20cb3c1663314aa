"""The process that delivers webhooks: woken by tickets, it never touches a model."""

from __future__ import annotations

import logging
import os
import socket

from shared.outbox import Outbox
from shared.presence import Presence
from shared.queue import Queue
from shared.server import connect_worker
from shared.settings import Settings
from shared.signature import secret_of
from shared.tickets import NOTIFY_QUEUE, Service, serve
from worker.deliver import Deliverer
from worker.notify import Notifier, lease_ms_for
from worker.pulse import Pulse
from worker.run_worker import await_server, make_reclaimer

log = logging.getLogger(__name__)


def run_notifier(settings: Settings) -> int:
    """Deliver webhooks until told to stop; returns the exit status. ``SetupError`` when it cannot start."""
    secret_of(settings)
    await_server(settings)
    name = f"notify-{os.getpid()}@{socket.gethostname()}"
    notifier = open_notifier(settings)
    reclaimer = make_reclaimer(settings)
    pulse = Pulse(notifier.begin, Presence(connect_worker(settings)), socket.gethostname())
    reclaimer.start()
    pulse.start()
    try:
        service = Service(name=name, queue=NOTIFY_QUEUE, pool="threads", on_ticket=notifier.wake, ready=pulse.ready)
        status = serve(settings, service)
    finally:
        pulse.stop()
        reclaimer.stop()
        if not notifier.close(settings.stop_grace_s):
            log.warning("webhooks under way were left; they fall due again")
    log.info("notifier %s stopped", name)
    return status


def open_notifier(settings: Settings) -> Notifier:
    """A notifier with a connection of its own. ``Misconfigured`` without a sound secret."""
    client = connect_worker(settings)
    outbox = Outbox(client, settings)
    deliverer = Deliverer(outbox, Queue(client, settings), settings)
    return Notifier(outbox, deliverer, lease_ms_for(settings.webhook_timeout_s))
