"""The base models that are known by name, from ``known.toml``; a catalogue's entry takes one over with ``use``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from shared.errors import CatalogueInvalid
from shared.sources.base_model import HUB

KNOWN = Path(__file__).with_name("known.toml")

Table = dict[str, Any]
"""A TOML table, as it was read."""


@cache
def known_base_models() -> dict[str, Table]:
    """All of them, by name, as a catalogue would write them out. Not to be changed."""
    found: dict[str, Table] = {}
    for name, table in tomllib.loads(KNOWN.read_text(encoding="utf-8"))["base_models"].items():
        # In the file's order: each may build on those before it.
        found[name] = completed(name, table, found)
    return found


def completed(name: str, table: Table, known: Mapping[str, Table]) -> Table:
    """The entry ``name`` with everything that it does not say itself, from the known one that it uses.

    Tables are merged key by key, at any depth; anything else is replaced. Raises ``CatalogueInvalid`` if there is none
    of that name.
    """
    if "use" not in table:
        return table
    # A list of them, since what was written may be anything.
    if table["use"] not in list(known):
        raise CatalogueInvalid(
            f"The base model {name} uses {table['use']!r}, which is not known; write one of {', '.join(known)}, or "
            "leave `use` out and write the whole entry."
        )
    own = {key: value for key, value in table.items() if key != "use"}
    # A commit of the known repository means nothing in another place.
    elsewhere = {"revision": _unpinned(own["source"])} if "source" in own else {}
    return _merged(known[table["use"]] | elsewhere, own)


def _merged(below: Table, above: Table) -> Table:
    merged = below | above
    for key in below.keys() & above.keys():
        if isinstance(below[key], dict) and isinstance(above[key], dict):
            merged[key] = _merged(below[key], above[key])
    return merged


def _unpinned(source: object) -> str:
    return "main" if str(source).startswith(HUB) else "local"
