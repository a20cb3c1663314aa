"""Whether the parts that jobs need are reached: each looked at in a thread, one look at a time, with patience."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

import anyio.to_thread

from api.views import PartView
from shared.errors import HotslotError

PATIENCE_S = 4.0
"""After this a part counts as not reached; its look goes on, and no second one is begun beside it."""


class Readiness:
    """Looks at named parts. A check returns, or raises HotslotError with a sentence."""

    def __init__(self, checks: Mapping[str, Callable[[], None]]) -> None:
        self._checks = checks
        self._looks: dict[str, asyncio.Task[None]] = {}

    async def parts(self) -> dict[str, PartView]:
        """Each part by name."""
        looks = {name: self._look(name) for name in self._checks}
        await asyncio.wait(looks.values(), timeout=PATIENCE_S)
        return {name: _part(look) for name, look in looks.items()}

    async def stop(self) -> None:
        """Give up looks that are still going on."""
        for look in self._looks.values():
            look.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await look

    def _look(self, name: str) -> asyncio.Task[None]:
        going = self._looks.get(name)
        if going is None or going.done():
            going = asyncio.create_task(anyio.to_thread.run_sync(self._checks[name], abandon_on_cancel=True))
            self._looks[name] = going
        return going


def _part(look: asyncio.Task[None]) -> PartView:
    if not look.done():
        return PartView(ok=False, detail=f"It does not answer within {PATIENCE_S:g} seconds.")
    error = look.exception()
    if error is None:
        return PartView(ok=True, detail="")
    if isinstance(error, HotslotError):
        return PartView(ok=False, detail=error.message)
    raise error
