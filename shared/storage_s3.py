"""The store of many machines: a bucket of any S3-compatible object store. The only file that knows boto3."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    IncompleteReadError,
    MetadataRetrievalError,
)
from botocore.exceptions import (
    ConnectionError as BotoConnectionError,
)

from shared.errors import HotslotError, ImageNotFound, Misconfigured, StoreUnavailable
from shared.settings import Settings
from shared.storage import check_key, check_prefix

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CreateBucketConfigurationTypeDef

CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 30
ATTEMPTS = 3
CONNECTIONS = 16
LIST_PAGE = 1000
_DENIED = {
    "403",
    "AccessDenied",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "NoSuchBucket",
    "SignatureDoesNotMatch",
}
_MISNAMED = {
    "301",
    "400",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
    "InvalidBucketName",
    "PermanentRedirect",
}
_THERE_ALREADY = {"BucketAlreadyOwnedByYou", "BucketAlreadyExists", "OperationAborted"}
_CREDENTIALS = "HOTSLOT_S3_ACCESS_KEY_ID and HOTSLOT_S3_SECRET_ACCESS_KEY"


class S3Store:
    """Objects in one bucket. See :class:`shared.storage.Store`.

    ``client`` does the work; ``public_client`` only signs links, for the address that callers reach. A put that
    returned is as lasting as the object store makes it.
    """

    def __init__(self, client: S3Client, public_client: S3Client, bucket: str) -> None:
        self._client = client
        self._public_client = public_client
        self._bucket = bucket

    @classmethod
    def of(cls, settings: Settings) -> S3Store:
        """Return the store of these settings; without keys, boto3 finds credentials in its usual places."""
        client = open_client(settings, settings.s3_endpoint_url)
        public = settings.s3_public_endpoint_url
        return cls(client, open_client(settings, public) if public else client, settings.s3_bucket)

    def put(self, key: str, data: bytes, content_type: str) -> None:
        """Write an object; the signed request carries the hash of its body, so the store refuses a damaged one."""
        check_key(key)
        with _told("write"):
            self._client.put_object(Bucket=self._bucket, Key=key, Body=data, ContentType=content_type)

    def get(self, key: str) -> bytes:
        """Return an object's bytes."""
        check_key(key)
        with _told("read"):
            return self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()

    def delete(self, key: str) -> None:
        """Remove an object."""
        check_key(key)
        with _told("delete"):
            self._client.delete_object(Bucket=self._bucket, Key=key)

    def list(self, prefix: str) -> Iterator[str]:
        """Yield the keys that start with ``prefix``."""
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=check_prefix(prefix), PaginationConfig={"PageSize": LIST_PAGE}
        )
        with _told("list"):
            for page in pages:
                yield from (item["Key"] for item in page.get("Contents", ()))

    def link(self, key: str, lifetime_s: int, content_type: str | None = None) -> str:
        """Return a URL signed with SigV4 for the public endpoint."""
        params = {"Bucket": self._bucket, "Key": check_key(key)}
        if content_type is not None:
            params["ResponseContentType"] = content_type
        with _told("sign a link"):
            return self._public_client.generate_presigned_url("get_object", Params=params, ExpiresIn=lifetime_s)

    def check(self) -> None:
        """Make the bucket if it is missing, then write, read and delete a small object in it."""
        key = f"check/{secrets.token_hex(8)}"
        try:
            if self._bucket_is_missing():
                self._make_bucket()
            self.put(key, b"hotslot", "application/octet-stream")
            self.get(key)
            self.delete(key)
        except HotslotError as error:
            raise self._advice(error) from error

    def close(self) -> None:
        """Close the connections; the store is of no use afterwards."""
        self._client.close()
        self._public_client.close()

    def _bucket_is_missing(self) -> bool:
        with _told("look for the bucket"):
            try:
                self._client.head_bucket(Bucket=self._bucket)
            except ClientError as error:
                # Keys that may not look (403) may still write; the put that follows tells.
                if error_code(error) not in {"403", "404"}:
                    raise
                return error_code(error) == "404"
            return False

    def _make_bucket(self) -> None:
        region = self._client.meta.region_name
        with _told("make the bucket"):
            try:
                if region == "us-east-1":
                    # The one region that S3 does not take by name.
                    self._client.create_bucket(Bucket=self._bucket)
                else:
                    place: CreateBucketConfigurationTypeDef = {"LocationConstraint": region}  # type: ignore[typeddict-item]
                    self._client.create_bucket(Bucket=self._bucket, CreateBucketConfiguration=place)
            except ClientError as error:
                # Several processes start at once.
                if error_code(error) not in _THERE_ALREADY:
                    raise

    def _advice(self, error: HotslotError) -> HotslotError:
        cause = error.__cause__
        place = f"the bucket '{self._bucket}' at {_host(self._client.meta.endpoint_url)}"
        if isinstance(cause, ClientError) and error_code(cause) in _DENIED:
            return Misconfigured(
                f"{error.message} Check {_CREDENTIALS}, that {place} exists, and what they may do there."
            )
        if isinstance(cause, ClientError) and error_code(cause) in _MISNAMED:
            return Misconfigured(f"{error.message} Check HOTSLOT_S3_REGION and the other settings that name {place}.")
        if isinstance(cause, BotoCoreError) and not _may_pass(cause):
            return Misconfigured(f"{error.message} Check {_CREDENTIALS} and the other HOTSLOT_S3 settings.")
        return StoreUnavailable(f"{error.message} This concerns {place}.")


def open_client(settings: Settings, endpoint_url: str | None) -> S3Client:
    """Return a client of its own session, because boto3's default session is not for threads."""
    key, secret = settings.s3_access_key_id, settings.s3_secret_access_key
    if (key is None) != (secret is None):
        raise Misconfigured(f"Set both of {_CREDENTIALS}, or neither.")
    config = Config(
        signature_version="s3v4",
        # Many stores answer 400 to the checksum headers that boto3 would add by itself.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": settings.s3_addressing_style},
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        max_pool_connections=CONNECTIONS,
    )
    try:
        return Session().client(
            "s3",
            region_name=settings.s3_region,
            endpoint_url=endpoint_url,
            aws_access_key_id=key.get_secret_value() if key else None,
            aws_secret_access_key=secret.get_secret_value() if secret else None,
            config=config,
        )
    except (ValueError, BotoCoreError) as error:
        raise Misconfigured("The HOTSLOT_S3 settings name no usable endpoint and region: correct them.") from error


@contextmanager
def _told(doing: str) -> Iterator[None]:
    """Turn boto3's errors into ours. Codes only: a store's own text may repeat a key id or an address."""
    try:
        yield
    except ClientError as error:
        if error_code(error) == "NoSuchKey":
            raise ImageNotFound("There is no such image: it was never made, or its retention has passed.") from error
        raise StoreUnavailable(f"The image store refused to {doing} ({error_code(error)}).") from error
    except BotoCoreError as error:
        raise StoreUnavailable(f"The image store did not {doing} ({type(error).__name__}).") from error


def error_code(error: ClientError) -> str:
    """The code that the store gave, or ``unknown``."""
    return error.response.get("Error", {}).get("Code", "unknown")


def _may_pass(error: BotoCoreError) -> bool:
    """Whether the same call may succeed later: the network was at fault, not what we were given."""
    return isinstance(error, BotoConnectionError | HTTPClientError | IncompleteReadError | MetadataRetrievalError)


def _host(endpoint_url: str) -> str:
    """Return host and port alone, since an address may carry a password."""
    return urlsplit(endpoint_url).netloc.rpartition("@")[2]
