from __future__ import annotations

from shared.receipt import check_signature
from shared.receipt_keys import ReceiptKeys
from tests.api.live import Live
from tests.shared.test_receipt import RECEIPT, SIGNER


def test_the_keys_of_all_workers_are_told(live: Live) -> None:
    assert live.http.get("/v1/receipt-keys").json() == {"keys": []}
    ReceiptKeys(live.redis).publish(SIGNER)
    ReceiptKeys(live.redis).publish(SIGNER)
    (key,) = live.http.get("/v1/receipt-keys").json()["keys"]
    assert key == {"id": SIGNER.key_id, "algorithm": "ed25519", "public_key": SIGNER.public_key}
    receipt = SIGNER.signed(RECEIPT).model_dump(mode="json")
    assert check_signature(receipt, {key["id"]: key["public_key"]}) == SIGNER.key_id
