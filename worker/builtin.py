"""The adapters that come with a built-in base model: where they lie, and their names in the registry."""

from __future__ import annotations

from pathlib import Path

from shared.adapter_files import sha256_of
from shared.catalogue import BaseModelEntry
from shared.errors import CatalogueInvalid
from shared.registry import RegisteredAdapter
from worker.engine import DiffusersEngine
from worker.engine_types import AdapterFile
from worker.tiny_flux import SOURCE, tiny_flux


def builtin_adapters(entry: BaseModelEntry) -> dict[str, Path]:
    """The files, by name, of those that the catalogue gives to this base model; none for one that is not built in.

    Not all there are, because a name belongs to one base model. Raises CatalogueInvalid for a name without a file.
    """
    if entry.source != SOURCE:
        return {}
    there = tiny_flux().adapters
    if unknown := [name for name in entry.builtin_adapters if name not in there]:
        raise CatalogueInvalid(
            f"builtin_adapters of {entry.name} names {', '.join(unknown)}; {SOURCE} has {', '.join(sorted(there))}."
        )
    return {name: there[name] for name in entry.builtin_adapters}


def registered(engine: DiffusersEngine, entry: BaseModelEntry, adapters: dict[str, Path]) -> list[RegisteredAdapter]:
    """Their entries for the registry, each read and converted once, so that what is registered can be served."""
    entries = []
    for name, path in adapters.items():
        sha256 = sha256_of(path)
        prepared = engine.prepare([AdapterFile(source=name, path=path, sha256=sha256, scale=1.0)])
        entries.append(
            RegisteredAdapter(
                name=name,
                base_model=entry.name,
                sha256=sha256,
                location=f"builtin:{name}",
                rank=max(adapter.rank for adapter in prepared.adapters),
            )
        )
    return entries
