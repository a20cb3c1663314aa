"""HTTP GET for adapter files: addresses checked before each connection, few redirects, no downgrade, one time limit.

Every hop is resolved once, and the connection goes to the address that was checked. Proxies of the environment are not
asked, because they would resolve the name again.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urljoin

import httpx2

from shared.addresses import Resolver, Target, look_up, resolve, split
from shared.errors import AddressRefused, RequestError, SourceUnavailable
from shared.settings import Network
from shared.version import VERSION

MOST_REDIRECTS = 5
IDLE_S = 30.0
"""A server that sends nothing for so long has gone."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TOTAL = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")


@dataclass(frozen=True)
class Head:
    """What a server says before the body; header names are lower-case. ``host`` is the one that answered at last."""

    status: int
    headers: Mapping[str, str]
    host: str

    @property
    def begin_bytes(self) -> int:
        """Where in the file the body begins."""
        found = self._range
        return int(found[1]) if found and found[1] else 0

    @property
    def size_bytes(self) -> int | None:
        """Size of the whole file, where the server tells it."""
        if self.status in (206, 416):
            found = self._range
            return int(found[3]) if found and found[3] != "*" else None
        length = self.headers.get("content-length", "")
        return int(length) if length.isascii() and length.isdigit() else None

    @property
    def _range(self) -> re.Match[str] | None:
        return _TOTAL.fullmatch(self.headers.get("content-range", "")) if self.status in (206, 416) else None


OnHead = Callable[[Head], None]
OnChunk = Callable[[bytes], bool]
"""Takes a piece of the body; whether more is wanted."""


class Web:
    """Sends requests; safe from any thread. Certificates are checked against the system's, for the URL's name.

    ``allowed``: private networks that may be reached all the same, and over http://. ``trusted``: a URL whose own
    scheme, host and port the operator chose, so that they are not checked.
    """

    def __init__(
        self,
        allowed: Sequence[Network] = (),
        *,
        trusted: str | None = None,
        resolver: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._allowed = tuple(allowed)
        self._trusted = _origin(split(trusted)) if trusted else None
        self._resolver = resolver
        self._tls = tls or httpx2.create_ssl_context(trust_env=False)

    def get(self, url: str, headers: Mapping[str, str], on_head: OnHead, on_chunk: OnChunk, budget_s: float) -> None:
        """Read a URL. What the callbacks raise passes through, so they judge the status.

        Raises ``RequestError`` for a URL, also one that is redirected to, that is malformed or leads inside;
        ``SourceUnavailable`` when there is no answer, or not all of it within ``budget_s`` seconds.
        """
        try:
            # An event loop of its own, because only cancelling can end a server that answers a byte at a time.
            asyncio.run(self._get_within(budget_s, url, dict(headers), on_head, on_chunk))
        except TimeoutError:
            raise SourceUnavailable(f"the server did not send everything within {budget_s:g} s; try again.") from None
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            # Without its text and its cause, which may repeat the URL.
            name = type(error).__name__
            raise SourceUnavailable(f"the server cannot be reached or hung up ({name}); try again.") from None

    async def _get_within(
        self, budget_s: float, url: str, headers: dict[str, str], on_head: OnHead, on_chunk: OnChunk
    ) -> None:
        async with asyncio.timeout(budget_s):
            await self._get(split(url), headers, on_head, on_chunk)

    async def _get(self, target: Target, headers: dict[str, str], on_head: OnHead, on_chunk: OnChunk) -> None:
        for _ in range(MOST_REDIRECTS + 1):
            address = await self._address(target)
            location = await self._hop(target, address, headers, on_head, on_chunk)
            if location is None:
                return
            coming = _redirected(target, location)
            if _origin(coming) != _origin(target):
                headers.pop("authorization", None)
            target = coming
        raise SourceUnavailable(f"the server redirects more than {MOST_REDIRECTS} times.")

    async def _hop(
        self, target: Target, address: str, headers: Mapping[str, str], on_head: OnHead, on_chunk: OnChunk
    ) -> str | None:
        """Where a redirect leads; None when this was the answer."""
        url = httpx2.URL(scheme=target.scheme, host=address, port=target.port, raw_path=target.path.encode("ascii"))
        own = {
            "host": target.authority,
            "accept": "*/*",
            "accept-encoding": "identity",
            "connection": "close",
            "user-agent": f"hotslot/{VERSION}",
        }
        extensions = {"sni_hostname": target.host, "target": target.path.encode("ascii")}
        async with (
            httpx2.AsyncClient(verify=self._tls, trust_env=False, follow_redirects=False, timeout=IDLE_S) as client,
            client.stream("GET", url, headers={**own, **headers}, extensions=extensions) as response,
        ):
            location = response.headers.get("location")
            if response.status_code in _REDIRECTS and location:
                return str(location)
            on_head(Head(response.status_code, dict(response.headers), target.host))
            async for chunk in response.aiter_raw():
                if not on_chunk(chunk):
                    break
        return None

    async def _address(self, target: Target) -> str:
        try:
            return await _in_thread(lambda: self._resolved(target))
        except OSError:
            raise SourceUnavailable(f"the name {target.host!r} does not resolve; try again.") from None

    def _resolved(self, target: Target) -> str:
        if _origin(target) == self._trusted:
            return (self._resolver or look_up)(target.host, target.port)[0]
        address = resolve(target.host, target.port, self._allowed, self._resolver)
        if target.scheme == "http" and not any(ip_address(address) in network for network in self._allowed):
            raise AddressRefused("http:// is taken only for networks that the operator allows; write https://.")
        return address


def _redirected(target: Target, location: str) -> Target:
    base = f"{target.scheme}://{target.authority}{target.path}"
    try:
        coming = split(urljoin(base, location).partition("#")[0])
    except (RequestError, ValueError):
        raise AddressRefused("the server redirects to an address that cannot be read.") from None
    if target.scheme == "https" and coming.scheme == "http":
        raise AddressRefused("the server redirects from https:// to http://, which is not followed.")
    return coming


def _origin(target: Target) -> tuple[str, str, int]:
    return target.scheme, target.host, target.port


async def _in_thread(call: Callable[[], str]) -> str:
    """``call()`` in a thread that nobody waits for when time is up, as a look-up cannot be interrupted."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[str] = loop.create_future()

    def settle(setter: Callable[[], None]) -> None:
        if not found.done():
            setter()

    def run() -> None:
        try:
            answer = call()
        except Exception as error:
            failure = error
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, lambda: found.set_exception(failure))
        else:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, lambda: found.set_result(answer))

    threading.Thread(target=run, name="look-up", daemon=True).start()
    return await found
