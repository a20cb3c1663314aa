"""One HTTP POST to an address that was checked beforehand: no second look-up, no redirect, no proxy, one time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import httpx2

from shared.addresses import Target
from worker.judge import Answer

Post = Callable[[Target, str, bytes, Mapping[str, str], float], Answer]
"""Target, address to connect to, body, headers, and seconds for all of it."""

MOST_RESPONSE_BYTES = 4096
"""So much of a response is read, for politeness; what it says does not matter."""
_LONGEST_NOTE = 200


class HttpPost:
    """Sends requests; safe from any thread. Certificates are checked against the system's, for the target's name."""

    def __init__(self) -> None:
        self._tls = httpx2.create_ssl_context(trust_env=False)

    def __call__(
        self, target: Target, address: str, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> Answer:
        """The status of the response, or why there is none within ``timeout_s``."""
        try:
            # An event loop of its own, because only cancelling can end a receiver that answers a byte at a time.
            return asyncio.run(self._send(target, address, body, headers, timeout_s))
        except TimeoutError:
            return f"no answer within {timeout_s:g} s"
        except httpx2.TransportError as error:
            return f"{type(error).__name__}: {error}"[:_LONGEST_NOTE]

    async def _send(
        self, target: Target, address: str, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> Answer:
        url = httpx2.URL(scheme=target.scheme, host=address, port=target.port, raw_path=target.path.encode("ascii"))
        own = {"host": target.authority, "accept": "*/*", "accept-encoding": "identity", "connection": "close"}
        extensions = {"sni_hostname": target.host, "target": target.path.encode("ascii")}
        status: int | None = None
        try:
            async with (
                asyncio.timeout(timeout_s),
                httpx2.AsyncClient(verify=self._tls, trust_env=False, follow_redirects=False, timeout=None) as client,
                client.stream("POST", url, content=body, headers={**own, **headers}, extensions=extensions) as response,
            ):
                status = response.status_code
                await _skim(response)
        except (TimeoutError, httpx2.TransportError):
            if status is None:
                raise
        return status


async def _skim(response: httpx2.Response) -> None:
    read_bytes = 0
    async for chunk in response.aiter_raw():
        read_bytes += len(chunk)
        if read_bytes >= MOST_RESPONSE_BYTES:
            return
