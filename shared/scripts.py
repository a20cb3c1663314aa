"""Loads the Lua scripts and runs them: one JSON object in, a list of strings out.

``prelude.lua`` stands before every script; the table of state changes and the key names come from Python,
so that each exists once.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import redis

from shared.job import LEGAL_CHANGES
from shared.keys import lua_functions
from shared.server import reached

NAMES = (
    "submit",
    "snapshot",
    "reserve",
    "claim",
    "renew",
    "place",
    "finish",
    "cancel",
    "give_back",
    "abandon",
    "reclaim",
    "report",
    "sweep",
    "outbox_take",
    "outbox_body",
    "outbox_settle",
)


def legal_table() -> str:
    """The table of legal state changes as Lua source."""
    rows = (
        f"{old.value} = {{{', '.join(f'{new.value} = true' for new in sorted(news))}}}"
        for old, news in LEGAL_CHANGES.items()
    )
    return f"local LEGAL = {{{', '.join(rows)}}}"


def source(name: str) -> str:
    """The whole Lua text of one script."""
    folder = files("shared") / "lua"
    prelude = (folder / "prelude.lua").read_text(encoding="utf-8")
    body = (folder / f"{name}.lua").read_text(encoding="utf-8")
    return "\n".join((legal_table(), lua_functions(), prelude, body))


class Scripts:
    """All scripts, bound to one client. ``QueueUnavailable`` when the server is not reached."""

    def __init__(self, client: redis.Redis) -> None:
        self._scripts = {name: client.register_script(source(name)) for name in NAMES}

    def run(self, name: str, **arguments: Any) -> list[str]:
        """Run one script with its arguments as a JSON object."""
        with reached():
            answer: list[str] = self._scripts[name](args=[json.dumps(arguments)])
        return answer
