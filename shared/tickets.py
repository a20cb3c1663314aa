"""Tickets: wake-ups carried by Celery. The only file that knows Celery.

A ticket on queue ``base.NAME`` says "look whether a job waits"; one on ``notify`` says "look whether an event is due".
It carries no job: lost, duplicate and late tickets are harmless, because ``shared.reclaim`` rings again while work
waits.

Settings that matter, and why: no result backend (the record is the truth; with one, a dead server makes publishing
hang for ~19 s); early ack (a ticket is not the job); prefork with one child (torch lives only there; its crash kills
the child, not the worker); prefetch off (a ticket held by a busy worker would be lost to an idle one).
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from celery import Celery, bootsteps, signals
from celery.app.amqp import AMQP
from celery.exceptions import SecurityWarning
from kombu import Connection

from shared.settings import Settings

log = logging.getLogger(__name__)

NOTIFY_QUEUE = "notify"
TASK = "hotslot.ticket"
_POLL_S = 0.2


def base_queue(base_model: str) -> str:
    """Name of the Celery queue that wakes workers of this base model."""
    return f"base.{base_model}"


class Tickets:
    """Rings. Never raises and never takes long: a lost ticket only costs the time until the next reclaim."""

    def __init__(self, settings: Settings) -> None:
        self._app = _make_app(settings, publish_only=True)

    def ring(self, base_model: str) -> None:
        """Wake a worker of this base model."""
        self._send(base_queue(base_model))

    def ring_notifier(self) -> None:
        """Wake a notifier."""
        self._send(NOTIFY_QUEUE)

    def ring_if_quiet(self, queue: str) -> None:
        """Send a ticket unless one waits already, so that tickets never pile up."""
        try:
            with self._app.connection_for_write() as connection:
                channel: Any = connection.default_channel
                if channel._size(queue):
                    return
        except Exception as error:
            log.warning("tickets cannot be counted (%s)", type(error).__name__)
            return
        self._send(queue)

    def _send(self, queue: str) -> None:
        try:
            self._app.send_task(TASK, queue=queue, retry=False, ignore_result=True, expires=3600)
        except Exception as error:
            # The broker's error texts can hold its address and password.
            log.warning("a ticket for %s was not sent (%s); reclaim will ring", queue, type(error).__name__)


@dataclass(frozen=True)
class Service:
    """What a Celery worker process does.

    ``on_ticket`` runs in the pool; ``child_start`` and ``child_stop`` run in a prefork child; ``on_stopping`` runs in
    the parent when a shutdown was asked for. Tickets are taken only while ``ready`` says so.
    """

    name: str
    queue: str
    pool: Literal["prefork", "threads"]
    on_ticket: Callable[[], None]
    ready: Callable[[], bool] = lambda: True
    child_start: Callable[[], None] | None = None
    child_stop: Callable[[], None] | None = None
    on_stopping: Callable[[], None] | None = None
    time_limit_s: float | None = None


def serve(settings: Settings, service: Service) -> int:
    """Run a Celery worker with one pool slot until it is told to stop; returns its exit status."""
    app = _make_app(settings, publish_only=False)
    app.conf.task_time_limit = service.time_limit_s
    app.task(name=TASK, ignore_result=True)(service.on_ticket)
    app.steps["consumer"].add(_gate(service))
    keep = _connect_signals(service)
    # Containers often run as root, and Celery's own remedy (pickle refused) is in force here anyway.
    warnings.simplefilter("ignore", SecurityWarning)
    worker = app.Worker(
        hostname=service.name,
        pool_cls=service.pool,
        pool=service.pool,
        concurrency=1,
        queues=[service.queue],
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        loglevel="WARNING",
        quiet=True,
    )
    worker.start()
    del keep
    return int(worker.exitcode or 0)


class _EagerConnection(Connection):
    """Reconnects within two seconds of the server's return; kombu's default pauses grow to half a minute."""

    def ensure_connection(self, *args: Any, **options: Any) -> Any:
        return super().ensure_connection(
            *args, **({"interval_start": 0.5, "interval_step": 0.5, "interval_max": 2.0} | options)
        )


class _Amqp(AMQP):
    Connection = _EagerConnection


def _make_app(settings: Settings, *, publish_only: bool) -> Celery:
    broker = settings.redis_url.get_secret_value()
    app = Celery("hotslot", broker=broker, amqp=_Amqp, set_as_current=not publish_only)
    transport: dict[str, Any] = {"socket_connect_timeout": 0.8, "socket_keepalive": True, "health_check_interval": 10}
    if publish_only:
        transport |= {"socket_timeout": 0.9, "max_retries": 0, "interval_start": 0, "interval_step": 0}
    app.conf.update(
        accept_content=["json"],
        broker_connection_max_retries=None,
        broker_connection_retry_on_startup=True,
        broker_transport_options=transport,
        result_backend=None,
        task_acks_late=False,
        task_create_missing_queues=True,
        task_ignore_result=True,
        task_serializer="json",
        # Cancels only late-acknowledged tasks, of which there are none; saves a warning at every reconnect.
        worker_cancel_long_running_tasks_on_connection_loss=True,
        worker_disable_prefetch=True,
        # Nobody asks, and every worker that is killed would leave a binding behind.
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        worker_prefetch_multiplier=1,
        # Longer than any model load; the default of 4 s kills a child that is still loading.
        worker_proc_alive_timeout=3600.0,
        worker_redirect_stdouts=False,
        worker_send_task_events=False,
    )
    return app


def _gate(service: Service) -> type[bootsteps.StartStopStep]:
    """A consumer step that takes tickets only while the service is ready, checked from Celery's own event loop."""

    class Gate(bootsteps.StartStopStep):
        requires = ("celery.worker.consumer.tasks:Tasks",)

        def __init__(self, consumer: Any, **options: Any) -> None:
            super().__init__(consumer, **options)
            self._timer: Any = None

        def start(self, consumer: Any) -> None:
            self._poll(consumer)
            self._timer = consumer.timer.call_repeatedly(_POLL_S, self._poll, (consumer,))

        def stop(self, consumer: Any) -> None:
            if self._timer is not None:
                self._timer.cancel()

        def _poll(self, consumer: Any) -> None:
            # Asked anew each time: a reconnect makes another task consumer, of the queues that were open then.
            is_open = consumer.task_consumer.consuming_from(service.queue)
            wanted = service.ready()
            if wanted and not is_open:
                consumer.add_task_queue(service.queue)
            elif is_open and not wanted:
                consumer.cancel_task_queue(service.queue)

    return Gate


def _connect_signals(service: Service) -> list[Callable[..., None]]:
    # Celery keeps weak references to receivers: the caller holds these.
    def child_started(**_: Any) -> None:
        if service.child_start:
            service.child_start()

    def child_stopping(**_: Any) -> None:
        if service.child_stop:
            service.child_stop()

    def stopping(**_: Any) -> None:
        if service.on_stopping:
            service.on_stopping()

    def leave_logging_alone(**_: Any) -> None:
        """Connected so that Celery does not configure logging: each process did it at its start."""

    signals.worker_process_init.connect(child_started)
    signals.worker_process_shutdown.connect(child_stopping)
    signals.worker_shutting_down.connect(stopping)
    signals.setup_logging.connect(leave_logging_alone)
    return [child_started, child_stopping, stopping, leave_logging_alone]
