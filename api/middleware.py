"""What stands before every route: the access log and the limit of a body's size. Pure ASGI, so that streams stream."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import answer, body_too_large

log = logging.getLogger("hotslot.access")

LARGEST_BODY_BYTES = 256 * 1024
DISCARDED_BYTES = 16 * 1024 * 1024
DISCARD_S = 5.0
LONGEST_PATH = 200
_ASKED_OFTEN = ("/healthz", "/readyz", "/v1/workers")
"""Paths that somebody polls."""


class AccessLog:
    """One short line per request: method, path, status, milliseconds. No query, because links are signed there."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and log how it was answered."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s, status = time.perf_counter(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            # The path as it came, because a decoded one could hold line breaks.
            path = scope.get("raw_path", b"").decode("ascii", "backslashreplace")[:LONGEST_PATH]
            level = logging.DEBUG if path in _ASKED_OFTEN else logging.INFO
            log.log(level, "%s %s %d %.0f ms", scope["method"], path, status, (time.perf_counter() - began_s) * 1000)


class BodyLimit:
    """Refuses bodies above ``LARGEST_BODY_BYTES``: by their announced length, else while they arrive."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse its body with 413."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        announced = headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > LARGEST_BODY_BYTES:
            # Who asks before sending has sent nothing yet.
            if headers.get("expect", "").lower() != "100-continue":
                await _discard(receive)
            await answer(body_too_large(LARGEST_BODY_BYTES), {"Connection": "close"})(scope, receive, send)
            return
        got_bytes = 0

        async def counting() -> Message:
            nonlocal got_bytes
            message = await receive()
            got_bytes += len(message.get("body", b""))
            if got_bytes > LARGEST_BODY_BYTES:
                if message.get("more_body"):
                    await _discard(receive)
                raise HTTPException(413)
            return message

        await self._app(scope, counting, send)


async def _discard(receive: Receive) -> None:
    """Read what is left of a body, within limits: closing before the caller has sent it would take our answer away."""
    left_bytes = DISCARDED_BYTES
    with suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_S):
            while left_bytes > 0:
                message = await receive()
                left_bytes -= len(message.get("body", b""))
                if not message.get("more_body"):
                    return
