from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from shared.errors import Misconfigured, ReceiptRefused
from shared.job import AppliedAdapterRecord, Receipt
from shared.receipt import ReceiptSigner, canonical, check_signature, key_id_of, new_receipt_key, signer_of
from shared.settings import Settings

SECRET = base64.b64encode(bytes(range(32))).decode()
SIGNER = ReceiptSigner(SECRET)
KEYS = {SIGNER.key_id: SIGNER.public_key}
RECEIPT = Receipt(
    job="01KJ9QZ7W5V0T3N8M2C4X6B1AD",
    adapters=[
        AppliedAdapterRecord(
            source="hf:größe/a",
            revision=None,
            sha256="ab" * 32,
            rank=4,
            scale=1.0,
            layers_applied=8,
            text_encoder_layers=0,
        ),
        AppliedAdapterRecord(
            source="night", revision="r", sha256="cd" * 32, rank=4, scale=-0.3, layers_applied=8, text_encoder_layers=0
        ),
    ],
    base_model="tiny-flux",
    base_revision="1",
    recipe="eager",
    fingerprint="f",
    library_versions={"torch": "2", "diffusers": "0"},
    worker="w",
    attempt=1,
    images_sha256=["ef" * 32],
)


def signed() -> dict[str, Any]:
    return SIGNER.signed(RECEIPT).model_dump(mode="json")


def test_what_was_signed_is_proven() -> None:
    assert check_signature(signed(), KEYS) == SIGNER.key_id == key_id_of(SIGNER.public_key)


def test_a_signature_outlives_being_written_by_another_library() -> None:
    text = json.dumps(signed(), sort_keys=True, indent=3, ensure_ascii=True).replace("1.0", "1")
    assert check_signature(json.loads(text), KEYS) == SIGNER.key_id


def test_a_member_that_this_version_does_not_know_is_signed_too() -> None:
    newer = {**signed(), "newer": [1.5, {"b": None, "a": True}]}
    with pytest.raises(ReceiptRefused, match="was changed"):
        check_signature(newer, KEYS)
    value = SIGNER._key.sign(canonical(newer))
    newer["signature"]["value"] = base64.b64encode(value).decode()
    assert check_signature(newer, KEYS) == SIGNER.key_id


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("adapters", 0, "scale"), 0.9),
        (("adapters", 0, "sha256"), "00" * 32),
        (("adapters",), []),
        (("images_sha256", 0), "00" * 32),
        (("job",), "another"),
        (("attempt",), 2),
        (("signature", "value"), base64.b64encode(bytes(64)).decode()),
        (("signature", "value"), "no base64"),
        (("signature", "value"), None),
    ],
)
def test_any_change_is_found(path: tuple[str | int, ...], value: object) -> None:
    changed: Any = signed()
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(ReceiptRefused, match="was changed, or comes from elsewhere"):
        check_signature(changed, KEYS)


def test_another_key_proves_nothing() -> None:
    other = ReceiptSigner(new_receipt_key())
    with pytest.raises(ReceiptRefused, match=f"{SIGNER.key_id}, which is not known here .known: {other.key_id}"):
        check_signature(signed(), {other.key_id: other.public_key})
    with pytest.raises(ReceiptRefused, match="was changed"):
        check_signature(signed(), {SIGNER.key_id: other.public_key})


@pytest.mark.parametrize("signature", [None, {}, {"algorithm": "none", "key_id": SIGNER.key_id, "value": ""}, "text"])
def test_an_unsigned_receipt_proves_nothing(signature: object) -> None:
    with pytest.raises(ReceiptRefused, match="is not signed"):
        check_signature({**signed(), "signature": signature}, KEYS)


@pytest.mark.parametrize("secret", ["", "short", base64.b64encode(bytes(31)).decode(), "é" * 44])
def test_a_wrong_key_is_refused_and_not_repeated(secret: str) -> None:
    with pytest.raises(Misconfigured, match="32 random bytes in base64") as caught:
        ReceiptSigner(secret)
    assert not secret or secret not in caught.value.message


def test_a_key_is_drawn_once_and_kept(tmp_path: Path) -> None:
    mine, other = Settings(data_folder=tmp_path), Settings(data_folder=tmp_path / "other")
    assert signer_of(mine).key_id == signer_of(mine).key_id != signer_of(other).key_id
    configured = Settings.model_validate({"data_folder": tmp_path / "c", "receipt_key": SECRET})
    assert signer_of(configured).key_id == SIGNER.key_id
    assert not (tmp_path / "c").exists()
