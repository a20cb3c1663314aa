"""Whether a worker or notifier of this host can do its work now: what a container's health check asks."""

from __future__ import annotations

import logging
import socket

from shared.errors import QueueUnavailable
from shared.presence import Presence
from shared.server import connect_api
from shared.settings import Settings

log = logging.getLogger(__name__)

UNHEALTHY = 1


def check_health(settings: Settings) -> int:
    """Exit status: 0 if one can. Asks the job server, so it also tells that this host reaches it."""
    host = socket.gethostname()
    try:
        with connect_api(settings) as client:
            found = can_work(Presence(client), host)
    except QueueUnavailable as error:
        log.error("%s", error.message)
        return UNHEALTHY
    if not found:
        log.error("no worker on %s has its model loaded, and no notifier there looks for webhooks", host)
        return UNHEALTHY
    return 0


def can_work(presence: Presence, host: str) -> bool:
    """Whether a worker of this host takes jobs, or a notifier of it delivers."""
    workers = (worker for worker in presence.alive() if worker.host == host)
    return any(worker.state in ("idle", "busy") for worker in workers) or presence.notifier_lives(host)
