"""Follows a job's events until it has ended, over as many connections as that takes."""

from __future__ import annotations

import time
from collections.abc import Callable

from httpx2 import ServerSentEvent

from cli.client import Client
from shared.errors import Unavailable
from shared.job import TERMINAL
from shared.view import JobView

PATIENCE_S = 60.0
"""How long the API may be away before following ends with its error."""
PAUSE_S = 1.0


def follow(
    client: Client,
    job_id: str,
    on_event: Callable[[ServerSentEvent], None],
    *,
    patience_s: float = PATIENCE_S,
    pause_s: float = PAUSE_S,
) -> JobView:
    """Hand on every event once, and return the job when it has ended. Raises HotslotError."""
    last_id = ""
    heard_s = time.monotonic()
    # Whether it exists at all must not be asked again and again.
    job = client.job(job_id)
    while True:
        try:
            for event in client.events(job_id, last_id):
                last_id = event.id or last_id
                heard_s = time.monotonic()
                on_event(event)
                if event.event in TERMINAL:
                    return client.job(job_id)
            job = client.job(job_id)
            heard_s = time.monotonic()
        except Unavailable:
            if time.monotonic() - heard_s > patience_s:
                raise
        # The end of the stream can be missed only together with the connection; the record tells it too.
        if job.status.terminal:
            return job
        time.sleep(pause_s)
