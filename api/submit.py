"""Taking a job: admission, the Idempotency-Key, the queue, and the wake-up, in this order."""

from __future__ import annotations

import hashlib
import json
import secrets
from functools import cache, partial

from api.admit import ByName, Pin, admit, unserved
from api.deps import Services
from shared.addresses import check_url
from shared.errors import WebhooksDisabled
from shared.ids import new_job_id
from shared.registry import RegisteredAdapter
from shared.request import JobRequest, WebhookRequest
from shared.settings import Settings
from shared.sources.access import prove_access
from shared.sources.identity import Identity
from shared.sources.opened import Opened
from shared.sources.source import Registered, is_remote, parse

DRAWN_SEEDS = 2**32
"""Seeds that are drawn stay below this, so that JavaScript callers read them exactly."""


def submit(here: Services, request: JobRequest, idempotency_key: str | None) -> tuple[str, bool]:
    """Queue the job; its id, and whether an earlier request with this key had made it.

    Raises what admission raises, KeyReused, or QueueUnavailable.
    """
    body_sha256 = digest(request)
    if idempotency_key and (known := here.queue.replayed(idempotency_key, body_sha256)):
        return known, True
    if request.webhook:
        check_webhook(request.webhook, here.settings)
    registered = here.registry.looked_up([adapter.source for adapter in request.adapters])
    spec, warnings = admit(
        here.inspector.with_base_model(request),
        here.catalogue,
        registered,
        pin_of(here, request, registered),
        lambda: secrets.randbelow(DRAWN_SEEDS),
    )
    here.inspector.check_job(spec, registered)
    warnings += unserved(spec.base_model, here.presence.states())
    job_id = new_job_id()
    stored = here.queue.submit(
        job_id, spec, warnings=warnings, idempotency_key=idempotency_key or "", body_sha256=body_sha256
    )
    if stored == job_id:
        here.tickets.ring(spec.base_model)
    return stored, stored != job_id


def digest(request: JobRequest) -> str:
    """SHA-256 of the request, the same however its JSON was spelled and whether defaults were given."""
    canonical = json.dumps(request.model_dump(), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def pin_of(here: Services, request: JobRequest, registered: ByName) -> Pin:
    """What asks the request's sources: all of them at once, when the first answer is needed."""
    look_ups = [
        (field, partial(_look_up, here, adapter.source, registered.get(adapter.source), field))
        for place, adapter in enumerate(request.adapters)
        if _is_asked(adapter.source, registered.get(adapter.source), field := f"adapters[{place}].source")
    ]
    pinning = cache(lambda: here.pins.start(look_ups))
    return lambda _, field: pinning().opened(field).identity


def _is_asked(source: str, known: RegisteredAdapter | None, field: str) -> bool:
    if known is not None:
        return is_remote(known.location)
    return not isinstance(parse(source, field=field), Registered)


def _look_up(here: Services, source: str, known: RegisteredAdapter | None, field: str) -> Opened:
    if known is None:
        return prove_access(here.sources, parse(source, field=field), field=field)
    pinned = Identity(known.location, known.revision, known.sha256)
    return prove_access(here.sources, parse(known.location, field=field), pinned, field=field)


def check_webhook(webhook: WebhookRequest, settings: Settings) -> None:
    """Refuse a webhook that could not be signed, or that leads where the operator does not allow."""
    if settings.webhook_secret is None:
        raise WebhooksDisabled(
            "webhook: this service sends none, because its operator has set no HOTSLOT_WEBHOOK_SECRET.", field="webhook"
        )
    check_url(webhook.url, settings.webhook_allowed_networks, field="webhook.url")
