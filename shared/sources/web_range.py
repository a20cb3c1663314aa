"""Parts of a file on a web server, whether it takes ranges or not; each answer is judged before its bytes are used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shared.errors import AdapterChanged, AdapterForbidden, AdapterUnreadable, SourceUnavailable, UnknownAdapter
from shared.sources.opened import MOST_PIECE_BYTES, check_piece
from shared.sources.origin import CHANGED
from shared.sources.web import Head, Web

Check = Callable[[Head], None]

_PASSES = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class WebPart:
    """A file at a URL. ``check`` is called with every answer that holds a part of it; what it raises passes through."""

    web: Web
    url: str
    headers: Mapping[str, str]
    check: Check

    def read(self, offset: int, length: int, budget_s: float) -> bytes:
        """So many bytes from ``offset`` on, or those up to the file's own end."""
        check_piece(length)
        pieces = bytearray()
        if length:
            self._get(offset, offset + length, pieces.extend, budget_s)
        return bytes(pieces)

    def download(self, begin: int, sink: Callable[[bytes], None], budget_s: float) -> None:
        """Hand all bytes from ``begin`` on to ``sink``."""
        self._get(begin, None, sink, budget_s)

    def _get(self, begin: int, end: int | None, sink: Callable[[bytes], None], budget_s: float) -> None:
        headers = dict(self.headers)
        if begin or end is not None:
            headers["range"] = f"bytes={begin}-{'' if end is None else end - 1}"
        skip, left = 0, end - begin if end is not None else None

        def on_head(head: Head) -> None:
            nonlocal skip
            refuse_status(head)
            self.check(head)
            if head.status == 206 and head.begin_bytes != begin:
                raise SourceUnavailable(f"{head.host} sent another part of the file than was asked for; try again.")
            # A server without ranges sends all of it.
            skip = begin if head.status == 200 else 0
            if end is not None and skip > MOST_PIECE_BYTES:
                raise AdapterUnreadable(f"{head.host} does not serve parts of files; use a server that takes ranges.")

        def on_chunk(chunk: bytes) -> bool:
            nonlocal skip, left
            dropped = min(skip, len(chunk))
            skip -= dropped
            piece = chunk[dropped:] if left is None else chunk[dropped : dropped + left]
            if piece:
                sink(piece)
            if left is None:
                return True
            left -= len(piece)
            return left > 0

        self.web.get(self.url, headers, on_head, on_chunk, budget_s)


def refuse_status(head: Head) -> None:
    """Raise what a status means, unless it comes with (a part of) the file."""
    host, status = head.host, head.status
    if status in (200, 206):
        return
    if status == 416:
        # Parts are asked for only within the size that was told before.
        raise AdapterUnreadable("the file is empty (0 bytes).") if head.size_bytes == 0 else AdapterChanged(CHANGED)
    if status in (401, 403):
        raise AdapterForbidden(
            f"{host} does not let this service read the file ({status}); a presigned link may have expired."
        )
    if status in (404, 410):
        raise UnknownAdapter(f"{host} has no such file ({status}).")
    if status in _PASSES:
        raise SourceUnavailable(f"{host} cannot serve the file now ({status}); try again.")
    raise UnknownAdapter(f"{host} does not serve the file: it answered {status}.")
