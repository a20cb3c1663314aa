"""``https://`` sources: any web server, read in parts, held to its ETag or date."""

from __future__ import annotations

from shared.errors import AdapterChanged, AdapterUnpinnable
from shared.sources.identity import Identity
from shared.sources.opened import FIRST_BYTES, Opened
from shared.sources.origin import CHANGED, OnSize, Sink, check_size
from shared.sources.source import WebFile
from shared.sources.web import Head, Web
from shared.sources.web_range import WebPart

READ_BUDGET_S = 30.0
"""For one range, once the file is open."""


class WebOrigin:
    """See :class:`shared.sources.origin.Origin`."""

    def __init__(self, web: Web, largest_bytes: int) -> None:
        self._web = web
        self._largest_bytes = largest_bytes

    def open(self, source: WebFile, budget_s: float) -> Opened:
        """One request for the first bytes tells size and version. Not HEAD: presigned links are for GET alone."""
        heads: list[Head] = []
        first = WebPart(self._web, source.url, {}, heads.append).read(0, FIRST_BYTES, budget_s)
        size_bytes, revision = _size_of(heads[0]), _revision_of(heads[0])
        check_size(size_bytes, self._largest_bytes)
        identity = Identity(location=source.text, revision=revision, sha256=None)

        def read_range(offset: int, length: int) -> bytes:
            if offset + length <= len(first):
                return first[offset : offset + length]
            return self._part(source, identity).read(offset, length, READ_BUDGET_S)

        return Opened(identity, size_bytes, read_range)

    def download(
        self, source: WebFile, identity: Identity, begin_bytes: int, on_size: OnSize, sink: Sink, budget_s: float
    ) -> None:
        """From ``begin_bytes`` on, if the version there is still that of ``identity``."""
        self._part(source, identity, on_size).download(begin_bytes, sink, budget_s)

    def _part(self, source: WebFile, identity: Identity, on_size: OnSize = lambda size: None) -> WebPart:
        def check(head: Head) -> None:
            size_bytes = _size_of(head)
            if _revision_of(head) != identity.revision:
                raise AdapterChanged(CHANGED)
            check_size(size_bytes, self._largest_bytes)
            on_size(size_bytes)

        return WebPart(self._web, source.url, {}, check)


def _size_of(head: Head) -> int:
    if head.size_bytes is None:
        raise AdapterUnpinnable(
            f"{head.host} does not tell the file's size; use a server that sends Content-Length or takes ranges."
        )
    return head.size_bytes


def _revision_of(head: Head) -> str:
    etag, modified = head.headers.get("etag"), head.headers.get("last-modified")
    if etag and not etag.startswith("W/"):
        return f"etag:{etag}"
    # Both may stay the same while bytes change, so the size has to agree too.
    if etag:
        return f"etag:{etag};bytes={head.size_bytes}"
    if modified:
        return f"modified:{modified};bytes={head.size_bytes}"
    raise AdapterUnpinnable(
        f"{head.host} sends neither ETag nor Last-Modified, so a job could not be held to these bytes; "
        "put the file where it has a version."
    )
