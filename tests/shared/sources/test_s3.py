"""``s3://`` sources against SeaweedFS, and against a store that refuses what it does not know."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from uuid import uuid4

import pytest
from pydantic import SecretStr

from bench.s3_server import BUCKET, S3Server
from shared.errors import (
    AdapterChanged,
    AdapterForbidden,
    AdapterTooLarge,
    AdapterUnpinnable,
    SourceUnavailable,
    UnknownAdapter,
)
from shared.settings import Settings
from shared.sources.identity import Identity
from shared.sources.sources import Sources
from shared.storage import Store
from shared.storage_s3 import open_client
from tests.picky_s3 import running_picky_s3
from tests.shared.sources.safetensors_bytes import small

A, B = small(b"\1", 100_000), small(b"\2", 100_000)


@pytest.fixture
def opened_bucket(s3_settings: Settings, s3_store: Store) -> Settings:
    """The image store's own bucket and keys."""
    return s3_settings.model_copy(update={"adapter_s3_buckets": (BUCKET,)})


@pytest.fixture
def key(s3_store: Store) -> Iterator[str]:
    key = f"adapters/{uuid4().hex}.safetensors"
    s3_store.put(key, A, "application/octet-stream")
    yield key
    s3_store.delete(key)


def download(sources: Sources, identity: Identity, begin_bytes: int = 0) -> bytes:
    got, sizes = bytearray(), []
    sources.download(identity, begin_bytes, sizes.append, got.extend)
    assert sizes == [len(A)]
    return bytes(got)


def test_size_version_and_parts(opened_bucket: Settings, key: str) -> None:
    sources = Sources(opened_bucket)
    opened = sources.open_source(f"s3://{BUCKET}/{key}")
    assert opened.size_bytes == len(A)
    assert opened.identity.location == f"s3://{BUCKET}/{key}"
    assert opened.identity.revision is not None
    assert opened.identity.revision.startswith('etag:"')
    assert opened.read_range(5, 100) == A[5:105]
    assert opened.read_range(len(A) - 5, 100) == A[-5:]
    assert opened.read_range(0, 0) == b""
    assert download(sources, opened.identity) == A
    assert download(sources, opened.identity, 77_777) == A[77_777:]


def test_an_object_that_is_replaced_is_noticed(opened_bucket: Settings, key: str, s3_store: Store) -> None:
    sources = Sources(opened_bucket)
    opened = sources.open_source(f"s3://{BUCKET}/{key}")
    s3_store.put(key, B, "application/octet-stream")
    with pytest.raises(AdapterChanged):
        opened.read_range(0, 10)
    with pytest.raises(AdapterChanged, match="submit the job again"):
        download(sources, opened.identity, 3)
    assert sources.open_source(f"s3://{BUCKET}/{key}").identity.key != opened.identity.key


def test_what_may_not_be_read(opened_bucket: Settings, s3_server: S3Server, key: str) -> None:
    sources = Sources(opened_bucket)
    with pytest.raises(UnknownAdapter, match="is not there"):
        sources.open_source(f"s3://{BUCKET}/absent")
    with pytest.raises(UnknownAdapter, match="HOTSLOT_ADAPTER_S3_BUCKETS"):
        sources.open_source("s3://another-bucket/x")
    with pytest.raises(UnknownAdapter, match="HOTSLOT_ADAPTER_S3_BUCKETS"):
        download(sources, Identity("s3://another-bucket/x", 'etag:"x"', None))
    wrong = opened_bucket.model_copy(update={"adapter_s3_secret_access_key": SecretStr("hunter2")})
    with pytest.raises(AdapterForbidden) as refused:
        Sources(wrong).open_source(f"s3://{BUCKET}/{key}")
    assert "hunter2" not in str(refused.value)
    assert s3_server.access_key not in refused.value.message


def test_a_store_of_its_own(s3_server: S3Server, s3_store: Store, key: str) -> None:
    settings = Settings(
        adapter_s3_buckets=(BUCKET,),
        adapter_s3_endpoint_url=s3_server.endpoint_url,
        adapter_s3_region="us-east-1",
        adapter_s3_access_key_id=SecretStr(s3_server.limited_access_key),
        adapter_s3_secret_access_key=SecretStr(s3_server.limited_secret_key),
    )
    assert Sources(settings).open_source(f"s3://{BUCKET}/{key}").size_bytes == len(A)


def test_sizes_above_the_limit(opened_bucket: Settings, key: str) -> None:
    small_only = opened_bucket.model_copy(update={"adapter_largest_bytes": 1000})
    with pytest.raises(AdapterTooLarge):
        Sources(small_only).open_source(f"s3://{BUCKET}/{key}")


def test_a_store_that_is_away(unused_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.storage_s3.ATTEMPTS", 1)
    with pytest.raises(SourceUnavailable, match="is not reached"):
        Sources(own(f"http://127.0.0.1:{unused_port}")).open_source("s3://bucket/key")


def test_a_store_that_refuses_what_it_does_not_know() -> None:
    with running_picky_s3() as picky:
        picky.objects["/bucket/key"] = A
        # It has no ETags either.
        with pytest.raises(AdapterUnpinnable):
            Sources(own(picky.url)).open_source("s3://bucket/key")
        heads = [headers for what, headers in picky.seen if what == "HEAD /bucket/key"]
    assert ["x-amz-checksum-mode" in headers for headers in heads] == [True, False]


def own(endpoint_url: str) -> Settings:
    return Settings(
        adapter_s3_buckets=("bucket",),
        adapter_s3_endpoint_url=endpoint_url,
        adapter_s3_access_key_id=SecretStr("id"),
        adapter_s3_secret_access_key=SecretStr("hunter2"),
    )


def test_a_hash_that_the_store_keeps(opened_bucket: Settings, key: str) -> None:
    store = open_client(opened_bucket, opened_bucket.s3_endpoint_url)
    store.put_object(Bucket=BUCKET, Key=key, Body=B, ChecksumAlgorithm="SHA256")
    opened = Sources(opened_bucket).open_source(f"s3://{BUCKET}/{key}")
    assert opened.sha256 in (None, sha256(B).hexdigest()), "of the whole object, or none"


def test_versions_are_read_as_they_were(opened_bucket: Settings, s3_server: S3Server) -> None:
    store, bucket = open_client(opened_bucket, opened_bucket.s3_endpoint_url), f"versioned-{uuid4().hex[:8]}"
    store.create_bucket(Bucket=bucket)
    store.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    store.put_object(Bucket=bucket, Key="a", Body=A)
    sources = Sources(opened_bucket.model_copy(update={"adapter_s3_buckets": (bucket,)}))
    before = sources.open_source(f"s3://{bucket}/a")
    assert before.identity.revision is not None
    assert before.identity.revision.startswith("version:")
    store.put_object(Bucket=bucket, Key="a", Body=B)
    assert before.read_range(len(A) - 5, 5) == A[-5:]
    assert download(sources, before.identity) == A
