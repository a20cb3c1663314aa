"""Signed receipts: what a worker says made an image, so that anybody can check it later without trusting a copy.

The signature is Ed25519 (RFC 8032) over ``hotslot-receipt-v1``, a line feed, and the receipt's canonical JSON: without
its ``signature``, members sorted by name, no spaces, UTF-8, whole numbers without a fraction (after RFC 8785). So it
survives being parsed and written again by any JSON library, and members that a reader does not know are covered too.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from shared.errors import Misconfigured, ReceiptRefused
from shared.job import Receipt, ReceiptSignature
from shared.secret_files import kept_secret
from shared.settings import Settings

CONTEXT = b"hotslot-receipt-v1\n"
KEY_BYTES = 32
KEY_FILE = "receipt-key"


class ReceiptSigner:
    """Signs receipts with one key, 32 bytes in base64; ``Misconfigured`` if it is not that."""

    def __init__(self, secret: str) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(_secret_bytes(secret))
        public = self._key.public_key().public_bytes_raw()
        self.public_key = base64.b64encode(public).decode("ascii")
        self.key_id = key_id_of(self.public_key)

    def signed(self, receipt: Receipt) -> Receipt:
        """The receipt with the signature over all of it."""
        value = self._key.sign(canonical(receipt.model_dump(mode="json")))
        signature = ReceiptSignature(key_id=self.key_id, value=base64.b64encode(value).decode("ascii"))
        return receipt.model_copy(update={"signature": signature})


def signer_of(settings: Settings) -> ReceiptSigner:
    """With the configured key, or with one that is drawn once and kept below the data folder."""
    if settings.receipt_key is not None:
        return ReceiptSigner(settings.receipt_key.get_secret_value())
    return ReceiptSigner(kept_secret(settings.data_folder / "secrets" / KEY_FILE, new_receipt_key))


def new_receipt_key() -> str:
    """A fresh random key: 32 bytes in base64."""
    return base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode("ascii")


def key_id_of(public_key: str) -> str:
    """Sixteen hex digits that stand for a public key."""
    return hashlib.sha256(public_key.encode("ascii")).hexdigest()[:16]


def check_signature(receipt: Mapping[str, Any], public_keys: Mapping[str, str]) -> str:
    """The id of the key that signed exactly this receipt (parsed JSON); ``public_keys``: base64 by key id.

    Raises ``ReceiptRefused``: it is not signed, by none of these keys, or was changed since.
    """
    signature = receipt.get("signature")
    if not isinstance(signature, dict) or signature.get("algorithm") != "ed25519":
        raise ReceiptRefused("The receipt is not signed.")
    key_id = str(signature.get("key_id"))
    if key_id not in public_keys:
        known = ", ".join(sorted(public_keys)) or "none"
        raise ReceiptRefused(f"The receipt is signed with the key {key_id}, which is not known here (known: {known}).")
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_keys[key_id], validate=True))
        key.verify(base64.b64decode(signature.get("value") or "", validate=True), canonical(receipt))
    except (InvalidSignature, ValueError, TypeError, RecursionError) as error:
        raise ReceiptRefused("The signature does not fit: the receipt was changed, or comes from elsewhere.") from error
    return key_id


def canonical(receipt: Mapping[str, Any]) -> bytes:
    """The bytes that are signed."""
    content = {name: value for name, value in receipt.items() if name != "signature"}
    text = json.dumps(_plain(content), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return CONTEXT + text.encode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(member) for member in value]
    # 1.0 and 1 are the same number in JSON, and writers differ.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _secret_bytes(secret: str) -> bytes:
    try:
        raw = base64.b64decode(secret, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != KEY_BYTES:
        raise Misconfigured(f"HOTSLOT_RECEIPT_KEY must be {KEY_BYTES} random bytes in base64.")
    return raw
