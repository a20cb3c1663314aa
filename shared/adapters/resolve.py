"""Which served base model an adapter is for: what its trainer wrote, else the only one that it fits. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from shared.adapters.base import BaseLayers
from shared.adapters.facts import naming
from shared.adapters.header import Header
from shared.adapters.plan import plan_adapter
from shared.catalogue import Catalogue
from shared.errors import AdapterError
from shared.sources.base_model import HUB

_FILE_ENDING = re.compile(r"\.(safetensors|ckpt|pt|bin)$")


def base_model_of(header: Header, catalogue: Catalogue, bases: Mapping[str, BaseLayers]) -> str | None:
    """The base model that the metadata names, or that alone takes the file; None where neither tells.

    ``bases``: layers of the served base models, as far as they are known. A single served base model is the answer
    for any file, so that its verdict says what is wrong.
    """
    if len(catalogue.base_models) == 1:
        return next(iter(catalogue.base_models))
    for said in naming(header.metadata):
        meant = [name for name in catalogue.base_models if _names(catalogue, name) & _forms(said)]
        if len(meant) == 1:
            return meant[0]
    taking = [name for name, base in bases.items() if _takes(header, base)]
    return taking[0] if len(taking) == 1 else None


def _takes(header: Header, base: BaseLayers) -> bool:
    try:
        plan_adapter(header, base)
    except AdapterError:
        return False
    return True


def _names(catalogue: Catalogue, name: str) -> set[str]:
    entry = catalogue.base_models[name]
    return {form.casefold() for form in (name, entry.source.removeprefix(HUB), *entry.aliases)}


def _forms(said: str) -> set[str]:
    """A repository, or the end of a path to one: with its owner and without, without a file's ending."""
    parts = _FILE_ENDING.sub("", said.casefold().replace("\\", "/").rstrip("/")).split("/")
    return {said.casefold(), "/".join(parts[-2:]), parts[-1]}
