"""``hotslot secrets``: what a deployment must keep secret, drawn once, each in a file of its own."""

from __future__ import annotations

import json
import secrets
import string
from pathlib import Path

from shared.receipt import new_receipt_key
from shared.secret_files import kept_secret
from shared.signature import new_secret

ACCESS_KEY_CHARACTERS = string.ascii_uppercase + string.digits
ACCESS_KEY_LENGTH = 20
SECRET_KEY_BYTES = 30


def draw_secrets(folder: Path) -> list[str]:
    """Names of the files in ``folder``, made where they are missing. Raises Misconfigured.

    The keys of the image store come as two files for Hotslot, and as one that SeaweedFS reads (``-s3.config``).
    """
    access_key = kept_secret(folder / "s3-access-key-id", _new_access_key)
    secret_key = kept_secret(folder / "s3-secret-access-key", lambda: secrets.token_urlsafe(SECRET_KEY_BYTES))
    kept_secret(folder / "s3-identities.json", lambda: json.dumps(seaweedfs_identities(access_key, secret_key)))
    kept_secret(folder / "webhook-secret", new_secret)
    kept_secret(folder / "receipt-key", new_receipt_key)
    return sorted(file.name for file in folder.iterdir())


def seaweedfs_identities(access_key: str, secret_key: str) -> dict[str, object]:
    """SeaweedFS's list of who may do what: one that may do all, because it also makes the bucket."""
    credentials = [{"accessKey": access_key, "secretKey": secret_key}]
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    return {"identities": [{"name": "hotslot", "credentials": credentials, "actions": actions}]}


def _new_access_key() -> str:
    return "".join(secrets.choice(ACCESS_KEY_CHARACTERS) for _ in range(ACCESS_KEY_LENGTH))
