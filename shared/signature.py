"""Webhook signatures as https://www.standardwebhooks.com defines them (version v1: HMAC-SHA256, a shared secret)."""

from __future__ import annotations

import base64
import binascii
import secrets
from datetime import UTC, datetime

from standardwebhooks import Webhook

from shared.errors import Misconfigured
from shared.settings import Settings

PREFIX = "whsec_"
SECRET_BYTES = 32
_FEWEST_BYTES = 24


def new_secret() -> str:
    """A fresh random secret: ``whsec_`` and 32 bytes in base64."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode("ascii")


def sign(secret: str, event_id: str, unix_s: int, body: str) -> dict[str, str]:
    """The three headers that let a receiver prove who sent ``body`` (to be sent as UTF-8), and when."""
    signature = Webhook(secret).sign(event_id, datetime.fromtimestamp(unix_s, UTC), body)
    return {"webhook-id": event_id, "webhook-timestamp": str(unix_s), "webhook-signature": signature}


def secret_of(settings: Settings) -> str:
    """The configured secret, or ``Misconfigured`` with what to set."""
    secret = settings.webhook_secret.get_secret_value() if settings.webhook_secret else ""
    if not secret:
        raise Misconfigured(
            "Webhooks need a signing secret: set HOTSLOT_WEBHOOK_SECRET to whsec_ and 32 random bytes in base64."
        )
    if not _is_sound(secret):
        raise Misconfigured(
            f"HOTSLOT_WEBHOOK_SECRET must be {PREFIX} followed by at least {_FEWEST_BYTES} random bytes in base64."
        )
    return secret


def _is_sound(secret: str) -> bool:
    if not secret.startswith(PREFIX):
        return False
    try:
        return len(base64.b64decode(secret.removeprefix(PREFIX), validate=True)) >= _FEWEST_BYTES
    except (binascii.Error, ValueError):
        return False
