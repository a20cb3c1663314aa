"""Waits until a stack takes jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from cli.client import Client
from shared.errors import Unavailable

LOOK_S = 0.5


def await_ready(client: Client, base_models: Collection[str], may_go_on: Callable[[], bool]) -> bool:
    """Wait until each base model has a worker that takes jobs; False if ``may_go_on`` said no before that."""
    while may_go_on():
        if ready(client, base_models):
            return True
        time.sleep(LOOK_S)
    return False


def ready(client: Client, base_models: Collection[str]) -> bool:
    """Whether each base model has a worker that takes jobs now."""
    try:
        workers = client.workers().workers
    except Unavailable:
        return False
    return set(base_models) <= {worker.base_model for worker in workers if worker.takes_jobs}
