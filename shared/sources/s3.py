"""``s3://`` sources: objects of the buckets that the operator has opened, in the image store or in one of their own."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from shared.errors import AdapterChanged, AdapterForbidden, AdapterUnpinnable, SourceUnavailable, UnknownAdapter
from shared.settings import Settings
from shared.sources.identity import Identity
from shared.sources.opened import Opened, check_piece
from shared.sources.origin import CHANGED, OnSize, Sink, check_size
from shared.sources.source import S3Object
from shared.storage_s3 import error_code, open_client

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import HeadObjectOutputTypeDef

_CHUNK_BYTES = 1 << 20
_MISSING = {"404", "NoSuchKey", "NoSuchBucket", "NoSuchVersion"}
_CHANGED = {"412", "416", "InvalidRange", "PreconditionFailed"}
_DENIED = {"401", "403", "AccessDenied", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch"}


class S3Origin:
    """See :class:`shared.sources.origin.Origin`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._takes_checksum_mode = True

    def open(self, source: S3Object, budget_s: float) -> Opened:
        """One request tells size, version and, where the store keeps it, the hash."""
        self._check_bucket(source)
        with _told(source):
            head = self._head(source)
        check_size(head["ContentLength"], self._settings.adapter_largest_bytes)
        identity = Identity(location=source.text, revision=_revision_of(head), sha256=_sha256_of(head))

        def read_range(offset: int, length: int) -> bytes:
            check_piece(length)
            with _told(source):
                answer = self._get(source, identity, f"bytes={offset}-{offset + max(length, 1) - 1}")
                # Not more, should the store know no ranges.
                body: bytes = answer["Body"].read(length)
                answer["Body"].close()
            return body

        return Opened(identity, head["ContentLength"], read_range)

    def download(
        self, source: S3Object, identity: Identity, begin_bytes: int, on_size: OnSize, sink: Sink, budget_s: float
    ) -> None:
        """From ``begin_bytes`` on, if the version there is still that of ``identity``."""
        self._check_bucket(source)
        end_s = time.monotonic() + budget_s
        with _told(source):
            answer = self._get(source, identity, f"bytes={begin_bytes}-")
        size_bytes = int(answer["ContentRange"].rpartition("/")[2])
        check_size(size_bytes, self._settings.adapter_largest_bytes)
        on_size(size_bytes)
        pieces = answer["Body"].iter_chunks(_CHUNK_BYTES)
        while piece := self._next(source, pieces):
            sink(piece)
            if time.monotonic() > end_s:
                answer["Body"].close()
                raise SourceUnavailable(f"the store did not send everything within {budget_s:g} s; try again.")

    @cached_property
    def _client(self) -> S3Client:
        settings = self._settings
        own = {
            "s3_endpoint_url": settings.adapter_s3_endpoint_url,
            "s3_region": settings.adapter_s3_region,
            "s3_access_key_id": settings.adapter_s3_access_key_id,
            "s3_secret_access_key": settings.adapter_s3_secret_access_key,
        }
        chosen = settings.model_copy(update={name: value for name, value in own.items() if value is not None})
        return open_client(chosen, chosen.s3_endpoint_url)

    def _check_bucket(self, source: S3Object) -> None:
        if source.bucket not in self._settings.adapter_s3_buckets:
            raise UnknownAdapter(
                f"the bucket {source.bucket} is not open to adapter sources here; "
                "its operator can name it in HOTSLOT_ADAPTER_S3_BUCKETS."
            )

    def _head(self, source: S3Object) -> HeadObjectOutputTypeDef:
        if self._takes_checksum_mode:
            try:
                return self._client.head_object(Bucket=source.bucket, Key=source.key, ChecksumMode="ENABLED")
            except ClientError as error:
                # Some stores refuse what they do not know, and this is only asked for the hash.
                if error_code(error) not in ("400", "InvalidArgument", "501", "NotImplemented"):
                    raise
            self._takes_checksum_mode = False
        return self._client.head_object(Bucket=source.bucket, Key=source.key)

    def _get(self, source: S3Object, identity: Identity, byte_range: str) -> Any:
        kind, _, version = (identity.revision or "").partition(":")
        held = {"VersionId": version} if kind == "version" else {"IfMatch": version}
        answer = self._client.get_object(Bucket=source.bucket, Key=source.key, Range=byte_range, **held)  # type: ignore[arg-type]
        # A store that does not know conditions answers all the same.
        if kind == "etag" and answer.get("ETag") != version:
            raise AdapterChanged(CHANGED)
        return answer

    @staticmethod
    def _next(source: S3Object, pieces: Iterator[bytes]) -> bytes:
        with _told(source):
            return next(pieces, b"")


def _revision_of(head: HeadObjectOutputTypeDef) -> str:
    version, etag = head.get("VersionId"), head.get("ETag")
    if version and version != "null":
        return f"version:{version}"
    if etag:
        return f"etag:{etag}"
    raise AdapterUnpinnable("the store tells no version of the object, so a job could not be held to these bytes.")


def _sha256_of(head: HeadObjectOutputTypeDef) -> str | None:
    checksum = head.get("ChecksumSHA256", "")
    # That of an object in parts is a hash of hashes, with their number behind it.
    if not checksum or "-" in checksum or head.get("ChecksumType", "FULL_OBJECT") != "FULL_OBJECT":
        return None
    return base64.b64decode(checksum).hex()


@contextmanager
def _told(source: S3Object) -> Iterator[None]:
    """Turn boto3's errors into ours. Codes only: a store's own text may repeat a key id or an address."""
    try:
        yield
    except ClientError as error:
        code = error_code(error)
        if code in _MISSING:
            raise UnknownAdapter(f"{source.text} is not there ({code}).") from None
        if code in _DENIED:
            raise AdapterForbidden(f"{source.text} is not there, or may not be read from here ({code}).") from None
        if code in _CHANGED:
            raise AdapterChanged(CHANGED) from None
        raise SourceUnavailable(f"the store cannot serve {source.text} now ({code}); try again.") from None
    except (BotoCoreError, OSError) as error:
        name = type(error).__name__
        raise SourceUnavailable(f"the store of {source.text} is not reached ({name}); try again.") from None
