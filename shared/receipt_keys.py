"""The public keys of all workers that ever signed a receipt on this server, so that old receipts can be checked."""

from __future__ import annotations

import redis

from shared import keys
from shared.receipt import ReceiptSigner
from shared.server import fields_of, reached


class ReceiptKeys:
    """Public keys on one server; raises ``QueueUnavailable`` when it is not reached."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client

    def publish(self, signer: ReceiptSigner) -> None:
        """Make the signer's public key known."""
        with reached():
            self._redis.hset(keys.RECEIPT_KEYS(), signer.key_id, signer.public_key)

    def all(self) -> dict[str, str]:
        """Every public key, 32 bytes in base64, by its id."""
        return fields_of(self._redis, keys.RECEIPT_KEYS())
