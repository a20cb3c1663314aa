"""The way of one webhook event: body, address, signature, request, verdict, settlement."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable

from shared.addresses import Resolver, resolve, split
from shared.errors import HotslotError, JobNotFound, QueueUnavailable
from shared.outbox import Outbox, Row
from shared.payload import render
from shared.queue import Queue
from shared.settings import Settings
from shared.signature import secret_of, sign
from shared.version import VERSION
from worker.judge import Answer, Verdict, judge
from worker.post import HttpPost, Post

log = logging.getLogger(__name__)


class Deliverer:
    """Delivers leased events, one per call; safe from any thread. ``Misconfigured`` without a sound secret."""

    def __init__(
        self,
        outbox: Outbox,
        queue: Queue,
        settings: Settings,
        *,
        post: Post | None = None,
        resolver: Resolver | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._secret = secret_of(settings)
        self._outbox = outbox
        self._queue = queue
        self._settings = settings
        self._post = post or HttpPost()
        self._resolver = resolver
        self._draw = draw

    def deliver(self, row: Row) -> Verdict | None:
        """Try once and settle the row; None when another has it by now. ``QueueUnavailable``: it falls due again."""
        try:
            verdict = self._attempt(row)
        except QueueUnavailable:
            raise
        except Exception as error:
            # An event that cannot be made must run out of attempts like any other, not come back for ever.
            log.exception("webhook %s: an error of our own", row.event)
            verdict = self._judge(f"internal error ({type(error).__name__})", row)
        if verdict is None:
            return None
        held = self._outbox.settle(row, verdict.outcome, delay_ms=verdict.delay_ms, note=verdict.note)
        _report(row, verdict)
        return verdict if held else None

    def _attempt(self, row: Row) -> Verdict | None:
        try:
            body = row.body or self._outbox.fix_body(row.event, self._render(row))
        except JobNotFound:
            return Verdict("dead", "the job's record is past its retention")
        if not body:
            return None
        return self._judge(self._send(row, body), row)

    def _render(self, row: Row) -> str:
        return render(self._queue.get(row.job), row.type, self._settings.public_url)

    def _send(self, row: Row, body: str) -> Answer:
        settings = self._settings
        try:
            target = split(row.url)
            address = resolve(target.host, target.port, settings.webhook_allowed_networks, self._resolver)
        except HotslotError as error:
            return f"{error.code}: {error.message}"
        except OSError:
            return "the host's name does not resolve"
        return self._post(target, address, body.encode(), self._headers(row, body), settings.webhook_timeout_s)

    def _headers(self, row: Row, body: str) -> dict[str, str]:
        signed = sign(self._secret, row.event, int(time.time()), body)
        return {"content-type": "application/json", "user-agent": f"hotslot/{VERSION}", **signed}

    def _judge(self, answer: Answer, row: Row) -> Verdict:
        return judge(answer, row.attempts, self._settings.webhook_max_attempts, self._draw())


def _report(row: Row, verdict: Verdict) -> None:
    # Only the host: paths and queries of webhook URLs often hold secrets.
    host = _host(row.url)
    if verdict.outcome == "delivered":
        log.info("webhook %s delivered to %s", row.event, host)
    elif verdict.outcome == "retry":
        log.info("webhook %s to %s: %s; again in %d s", row.event, host, verdict.note, verdict.delay_ms // 1000)
    else:
        log.warning("webhook %s to %s given up after %d attempts: %s", row.event, host, row.attempts, verdict.note)


def _host(url: str) -> str:
    try:
        return split(url).host
    except HotslotError:
        return "a URL that cannot be read"
