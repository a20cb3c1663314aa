"""What is particular to S3-compatible stores."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import boto3
import httpx2
import pytest
from botocore.exceptions import ClientError
from pydantic import SecretStr

from bench.s3_server import S3Server
from shared import storage_s3
from shared.errors import ImageNotFound, Misconfigured, StoreUnavailable
from shared.settings import Settings
from shared.storage import Store, open_store
from tests.picky_s3 import PickyS3, running_picky_s3

PNG = "image/png"
SECRET = "a secret that must show nowhere"


@pytest.fixture
def picky() -> Iterator[PickyS3]:
    with running_picky_s3() as server:
        yield server


def settings_for(endpoint_url: str, **others: object) -> Settings:
    keys = {"s3_access_key_id": SecretStr("the key id"), "s3_secret_access_key": SecretStr(SECRET)}
    return Settings.model_validate({"store": "s3", "s3_endpoint_url": endpoint_url} | keys | others)


def test_a_store_that_knows_no_checksum_headers(picky: PickyS3) -> None:
    with closing(open_store(settings_for(picky.url))) as store:
        store.check()
        store.put("jobs/1/0.png", b"image", PNG)
        assert store.get("jobs/1/0.png") == b"image"
        store.delete("jobs/1/0.png")
        with pytest.raises(ImageNotFound):
            store.get("jobs/1/0.png")
    assert {"PUT /hotslot", "PUT /hotslot/jobs/1/0.png", "DELETE /hotslot/jobs/1/0.png"} <= {
        what for what, _ in picky.seen
    }
    # The body's hash is in the signature, so that a damaged upload is refused all the same.
    puts = [headers for what, headers in picky.seen if what == "PUT /hotslot/jobs/1/0.png"]
    assert len(puts[0]["x-amz-content-sha256"]) == 64


def test_that_store_refuses_what_boto3_sends_by_itself(picky: PickyS3) -> None:
    with closing(
        boto3.session.Session().client(
            "s3", endpoint_url=picky.url, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
        )
    ) as client:
        client.create_bucket(Bucket="hotslot")
        with pytest.raises(ClientError, match="InvalidArgument"):
            client.put_object(Bucket="hotslot", Key="a", Body=b"image")


def test_links_are_signed_for_the_public_host(s3_store: Store, s3_settings: Settings) -> None:
    key = f"jobs/{uuid4().hex}/0.png"
    s3_store.put(key, b"image", PNG)
    link = s3_store.link(key, 60)
    inside, outside = s3_settings.s3_endpoint_url or "", s3_settings.s3_public_endpoint_url or ""
    assert link.startswith(f"{outside}/{s3_settings.s3_bucket}/{key}?")
    answer = httpx2.get(link)
    assert (answer.status_code, answer.content) == (200, b"image")
    assert not [name for name in answer.headers if name.lower().startswith("x-amz-meta")]
    assert httpx2.get(link.replace(outside, inside)).status_code == 403


@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1"])
@pytest.mark.parametrize(
    ("style", "place"), [("path", "s3.example/hotslot/a.png"), ("virtual", "hotslot.s3.example/a.png")]
)
def test_links_use_sigv4_and_the_named_addressing(region: str, style: str, place: str) -> None:
    settings = settings_for("https://s3.example", s3_region=region, s3_addressing_style=style)
    with closing(open_store(settings)) as store:
        link = urlsplit(store.link("a.png", 60, PNG))
    query = parse_qs(link.query)
    assert link.netloc + link.path == place
    assert query["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"]
    assert query["X-Amz-Expires"] == ["60"]
    assert f"/{region}/s3/" in query["X-Amz-Credential"][0]
    assert not [name for name in query if "checksum" in name.lower()]


def test_list_goes_on_past_the_first_page(s3_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_s3, "LIST_PAGE", 2)
    prefix = f"jobs/{uuid4().hex}/"
    keys = [f"{prefix}{number}.png" for number in range(5)]
    for key in keys:
        s3_store.put(key, b"x", PNG)
    assert sorted(s3_store.list(prefix)) == keys


def test_check_makes_a_missing_bucket(s3_settings: Settings) -> None:
    with closing(open_store(s3_settings.model_copy(update={"s3_bucket": f"new-{uuid4().hex}"}))) as store:
        with pytest.raises(StoreUnavailable, match="NoSuchBucket"):
            store.put("a.png", b"", PNG)
        store.check()
        store.check()
        store.put("a.png", b"image", PNG)
        assert store.get("a.png") == b"image"


@pytest.mark.parametrize(("region", "named"), [("us-east-1", False), ("eu-central-1", True)])
def test_a_bucket_is_made_in_the_named_region(picky: PickyS3, region: str, named: bool) -> None:
    with closing(open_store(settings_for(picky.url, s3_region=region))) as store:
        store.check()
    assert (f">{region}</LocationConstraint>".encode() in picky.objects["/hotslot"]) is named


def limited(s3_settings: Settings, s3_server: S3Server, **others: object) -> Settings:
    keys = {
        "s3_access_key_id": SecretStr(s3_server.limited_access_key),
        "s3_secret_access_key": SecretStr(s3_server.limited_secret_key),
    }
    return s3_settings.model_copy(update=keys | others)


def test_keys_that_may_only_use_the_bucket_are_enough(
    s3_settings: Settings, s3_server: S3Server, s3_store: Store
) -> None:
    with closing(open_store(limited(s3_settings, s3_server))) as store:
        store.check()


def test_check_says_when_the_bucket_is_missing_and_may_not_be_made(s3_settings: Settings, s3_server: S3Server) -> None:
    bucket = f"new-{uuid4().hex}"
    with (
        closing(open_store(limited(s3_settings, s3_server, s3_bucket=bucket))) as store,
        pytest.raises(Misconfigured, match=f"that the bucket '{bucket}' at .* exists") as refused,
    ):
        store.check()
    assert_no_secret(refused.value, s3_server.limited_secret_key)


def test_check_says_when_the_keys_are_wrong(s3_settings: Settings) -> None:
    wrong = s3_settings.model_copy(update={"s3_secret_access_key": SecretStr(f"not {SECRET}")})
    with (
        closing(open_store(wrong)) as store,
        pytest.raises(Misconfigured, match="Check HOTSLOT_S3_ACCESS_KEY_ID") as refused,
    ):
        store.check()
    assert_no_secret(refused.value, SECRET)


CALLS: dict[str, Callable[[Store], object]] = {
    "put": lambda store: store.put("a.png", b"image", PNG),
    "get": lambda store: store.get("a.png"),
    "delete": lambda store: store.delete("a.png"),
    "list": lambda store: list(store.list("")),
    "check": lambda store: store.check(),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_store_that_is_away(call: str, unused_port: int) -> None:
    settings = settings_for(f"http://user:{SECRET}@127.0.0.1:{unused_port}")
    with closing(open_store(settings)) as store, pytest.raises(StoreUnavailable) as away:
        CALLS[call](store)
    assert away.value.retryable
    assert SECRET not in away.value.message


def test_one_key_without_the_other() -> None:
    with pytest.raises(Misconfigured, match="Set both"):
        open_store(settings_for("http://127.0.0.1:1", s3_secret_access_key=None))


def test_an_endpoint_that_is_no_address() -> None:
    with pytest.raises(Misconfigured, match="HOTSLOT_S3") as refused:
        open_store(settings_for("127.0.0.1:1"))
    assert_no_secret(refused.value, SECRET)


def assert_no_secret(error: BaseException, secret: str) -> None:
    """Nor in the errors behind it, which end in a log."""
    assert secret not in "".join(traceback.format_exception(error))
