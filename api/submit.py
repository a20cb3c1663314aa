"""Taking a job: admission, the Idempotency-Key, the queue, and the wake-up, in this order."""

from __future__ import annotations

import hashlib
import json
import secrets

from api.admit import admit, unserved
from api.deps import Services
from shared.adapter_files import resolve
from shared.addresses import check_url
from shared.errors import UnknownAdapter, WebhooksDisabled
from shared.ids import new_job_id
from shared.request import JobRequest, WebhookRequest
from shared.settings import Settings

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
    spec, warnings = admit(
        here.inspector.with_base_model(request),
        here.catalogue,
        here.registry.all(),
        lambda path, field: find_file(here, path, field),
        lambda: secrets.randbelow(DRAWN_SEEDS),
    )
    here.inspector.check_job(spec)
    warnings += unserved(spec.base_model, here.presence.alive())
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


def find_file(here: Services, path: str, field: str) -> str:
    """SHA-256 of a file below the adapter folder; ``UnknownAdapter`` when it cannot be read, or AdapterNotReady."""
    try:
        return here.file_hashes.of(resolve(here.settings.adapter_folder, path, field=field), field=field)
    except (OSError, ValueError) as error:
        raise UnknownAdapter(f"{field}: this file cannot be read.", field=field) from error


def check_webhook(webhook: WebhookRequest, settings: Settings) -> None:
    """Refuse a webhook that could not be signed, or that leads where the operator does not allow."""
    if settings.webhook_secret is None:
        raise WebhooksDisabled(
            "webhook: this service sends none, because its operator has set no HOTSLOT_WEBHOOK_SECRET.", field="webhook"
        )
    check_url(webhook.url, settings.webhook_allowed_networks, field="webhook.url")
