"""The least that Celery itself can do: a task that notes when it started. ``python -m bench.api.bare_celery URL``.

Celery's own defaults, but one process and prefetch off, as our workers have it.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from celery import Celery

QUEUE = "bench.bare"
STARTED = "bench:started"
TASK = "bench.note"


class BareCelery:
    """Publishes, and waits until the task has said when it started."""

    def __init__(self, url: str) -> None:
        self._app = make_app(url)
        # Opened beforehand, so that nothing but the task is under way when it is measured.
        self._channel: Any = self._app.connection_for_read().default_channel

    def start_after_s(self, timeout_s: float = 60.0) -> float:
        """Seconds from ``apply_async`` until the task's first line."""
        sent_s = time.time()
        self._app.tasks[TASK].apply_async(queue=QUEUE)
        answer = self._channel.client.blpop(STARTED, timeout=timeout_s)
        if answer is None:
            raise TimeoutError("the bare Celery worker does not answer")
        return float(answer[1]) - sent_s


def make_app(url: str) -> Celery:
    """The app of both sides."""
    app = Celery("bare", broker=url, set_as_current=False)
    app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=1, worker_hijack_root_logger=False)

    def note() -> None:
        started_s = time.time()
        with app.connection_for_write() as connection:
            channel: Any = connection.default_channel
            channel.client.rpush(STARTED, repr(started_s))

    app.task(name=TASK)(note)
    return app


if __name__ == "__main__":
    worker = make_app(sys.argv[1]).Worker(
        hostname="bare@bench", pool_cls="prefork", concurrency=1, queues=[QUEUE], loglevel="WARNING", quiet=True
    )
    worker.start()
    sys.exit(worker.exitcode or 0)
