"""Signatures against the stock library, and secrets that are refused."""

from __future__ import annotations

import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from shared.errors import Misconfigured
from shared.settings import Settings
from shared.signature import new_secret, secret_of, sign

BODY = '{"prompt": "猫と🐱"}'


def test_the_stock_library_verifies() -> None:
    secret = new_secret()
    headers = sign(secret, "evt_1", int(time.time()), BODY)
    assert Webhook(secret).verify(BODY.encode(), headers) == {"prompt": "猫と🐱"}


@pytest.mark.parametrize("change", ["body", "id", "timestamp", "secret"])
def test_a_change_of_anything_fails(change: str) -> None:
    secret, now_s = new_secret(), int(time.time())
    headers = sign(secret, "evt_1", now_s, BODY)
    body = BODY.replace("猫", "犬") if change == "body" else BODY
    if change == "id":
        headers["webhook-id"] = "evt_2"
    if change == "timestamp":
        headers["webhook-timestamp"] = str(now_s - 1)
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret() if change == "secret" else secret).verify(body, headers)


def test_secrets_differ() -> None:
    assert len({new_secret() for _ in range(100)}) == 100


@pytest.mark.parametrize("secret", [None, "", "whsec_", "whsec_AAAA", "whsec_!!" + "A" * 42, "A" * 44])
def test_a_secret_that_is_missing_or_weak_is_refused(secret: str | None) -> None:
    with pytest.raises(Misconfigured, match="HOTSLOT_WEBHOOK_SECRET") as caught:
        secret_of(Settings.model_validate({"webhook_secret": secret}))
    if secret and secret != "whsec_":
        assert secret.removeprefix("whsec_") not in caught.value.message


def test_a_fresh_secret_is_taken() -> None:
    secret = new_secret()
    assert secret_of(Settings.model_validate({"webhook_secret": secret})) == secret
