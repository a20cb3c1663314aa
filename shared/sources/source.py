"""The adapter sources that a caller may name: a closed set of kinds, and the text of each.

NAME                                  a registered adapter
hf:owner/repo[@revision][#file]       a file of a model repository on the hub
s3://bucket/key                       an object of a bucket that the operator has opened
https://host/path                     a file of any web server; http:// only where the operator allows it
file:PATH                             a file below the adapter folder
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from shared.addresses import split
from shared.errors import InvalidRequest, RequestError, UnknownAdapter

TAKEN = "a registered name, hf:OWNER/REPO[@REVISION][#FILE], s3://BUCKET/KEY, https://… or file:PATH"
SUFFIX = ".safetensors"

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_HUB = re.compile(r"(?P<repo>[^@#/\s]+/[^@#/\s]+)(@(?P<revision>[^#\s]+))?(#(?P<file>.+))?")
_REPO = re.compile(r"(?!.*(--|\.\.))[A-Za-z0-9_][A-Za-z0-9._-]{0,95}/[A-Za-z0-9_][A-Za-z0-9._-]{0,95}")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_USER = re.compile(r"//[^/]*@")
_COMMIT = re.compile(r"[0-9a-f]{40}")
# Query parameters that only prove a right to read; what the URL names stays the same without them.
_SIGNATURE = re.compile(r"(?i)(x-amz-(?!version)|x-goog-)[a-z0-9-]*=")


@dataclass(frozen=True)
class Registered:
    """An adapter by its registered name."""

    name: str

    @property
    def text(self) -> str:
        """The name."""
        return self.name


@dataclass(frozen=True)
class HubFile:
    """A safetensors file of a hub repository; without ``file`` the only one that the repository has."""

    repo: str
    revision: str | None = None
    file: str | None = None

    @property
    def text(self) -> str:
        """``hf:owner/repo[@revision][#file]``."""
        revision = f"@{self.revision}" if self.revision else ""
        return f"hf:{self.repo}{revision}" + (f"#{self.file}" if self.file else "")

    @property
    def is_pinned(self) -> bool:
        """Whether the revision is a commit, which always means the same bytes."""
        return bool(self.revision and self.file and _COMMIT.fullmatch(self.revision))


@dataclass(frozen=True)
class S3Object:
    """An object of a bucket."""

    bucket: str
    key: str

    @property
    def text(self) -> str:
        """``s3://bucket/key``."""
        return f"s3://{self.bucket}/{self.key}"


@dataclass(frozen=True)
class WebFile:
    """A file at an http(s) URL. The query may hold a secret; ``shown`` leaves it out."""

    url: str

    @property
    def text(self) -> str:
        """The URL with everything in it: for the queue's record alone."""
        return self.url


@dataclass(frozen=True)
class FolderFile:
    """A file below the adapter folder."""

    path: str

    @property
    def text(self) -> str:
        """``file:PATH``."""
        return f"file:{self.path}"


RemoteSource = HubFile | S3Object | WebFile
AdapterSource = Registered | FolderFile | RemoteSource


def parse(text: str, *, field: str = "adapters") -> AdapterSource:
    """What a caller's text names; ``RequestError`` with what is wrong, which repeats no query."""
    try:
        return _parse(text)
    except RequestError as error:
        raise type(error)(f"{field}: {error.message}", field=field) from error


def shown(text: str) -> str:
    """A source for people, records and logs: an URL without user and query, which may be secret; else as it is."""
    if not _is_web(text):
        return text
    bare, mark, _ = text.partition("?")
    return _USER.sub("//", bare.partition("#")[0]) + ("?…" if mark else "")


def is_remote(location: str) -> bool:
    """Whether a place that a job is pinned to is asked over a network."""
    return location.startswith(("hf:", "s3:")) or _is_web(location)


def unsigned(text: str) -> str:
    """A source without the signature of a presigned link: what stays the same when it is signed anew."""
    if not _is_web(text):
        return text
    bare, _, query = text.partition("?")
    kept = "&".join(word for word in query.split("&") if word and not _SIGNATURE.match(word))
    return f"{bare}?{kept}" if kept else bare


def _is_web(text: str) -> bool:
    return text[:6].lower().startswith(("http:", "https:"))


def _parse(text: str) -> AdapterSource:
    if text.startswith("file:"):
        return FolderFile(text.removeprefix("file:"))
    if text.startswith("hf:"):
        return _hub_file(text.removeprefix("hf:"))
    if text.startswith("s3:"):
        return _s3_object(text)
    if _is_web(text):
        return _web_file(text)
    if _SCHEME.match(text):
        kind = text.partition(":")[0]
        raise UnknownAdapter(f"a source of the kind {kind[:20]}: is of a kind that is not taken; taken are {TAKEN}.")
    return Registered(text)


def _hub_file(text: str) -> HubFile:
    found = _HUB.fullmatch(text)
    if found is None or not _REPO.fullmatch(found["repo"]):
        raise InvalidRequest("write hf:OWNER/REPO, hf:OWNER/REPO@REVISION or hf:OWNER/REPO@REVISION#FILE.safetensors.")
    revision, file = found["revision"], found["file"]
    if _CONTROL.search(text) or ".." in re.split("[/]", file or "") or (file or "").startswith("/"):
        raise InvalidRequest("a file of a repository is named by its path in it, as in #folder/file.safetensors.")
    if file is not None and not file.endswith(SUFFIX):
        raise InvalidRequest("only safetensors files are taken: name one that ends in .safetensors after the #.")
    return HubFile(found["repo"], revision, file)


def _s3_object(text: str) -> S3Object:
    bucket, _, key = text.removeprefix("s3://").partition("/")
    if not text.startswith("s3://") or not _BUCKET.fullmatch(bucket) or not key or _CONTROL.search(key):
        raise InvalidRequest("write s3://BUCKET/KEY.")
    return S3Object(bucket, key)


def _web_file(text: str) -> WebFile:
    split(text)
    if urlsplit(text).fragment:
        raise InvalidRequest("leave out the #… at the end of the URL: it names no part of a file.")
    return WebFile(text)
