"""The layers of the base models that the catalogue serves, from their configs alone: no weights, no torch."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from shared.adapters.base import BaseLayers
from shared.catalogue import BaseModelEntry, Catalogue
from shared.errors import CatalogueInvalid
from shared.families.bundled import FAMILIES, bundled_models
from shared.families.family import Config, Family
from shared.sources.base_model import BUILTIN, HUB

log = logging.getLogger(__name__)


def served_bases(catalogue: Catalogue) -> dict[str, BaseLayers]:
    """Layers by base model, of those whose configs are at hand; adapters for the others are judged by their workers."""
    found = {name: base_of(entry) for name, entry in catalogue.base_models.items()}
    for name, base in found.items():
        if base is None:
            log.warning(
                "the layers of %s are not known here, so its adapters are not looked into at submit; "
                "give the catalogue's entry a layout",
                name,
            )
    return {name: base for name, base in found.items() if base is not None}


def base_of(entry: BaseModelEntry) -> BaseLayers | None:
    """What of this base model decides about adapters, or None where its configs are not at hand.

    They come from the folder that it is loaded from, else from the bundled model that its ``layout`` names or that is
    published as its ``source``. Raises ``CatalogueInvalid`` if they are not those of its family.
    """
    family = FAMILIES[entry.family]
    configs = _of_folder(Path(entry.source), family) or _bundled(entry)
    if not configs:
        return None
    try:
        layers = family.layers(
            {component: configs[component] for component in adapted_components(entry) if component in configs}
        )
    except ValueError as error:
        raise CatalogueInvalid(
            f"The base model {entry.name} is not one of the family {family.name}: {error}."
        ) from error
    return BaseLayers(family, layers, entry.slot.top_rank)


def adapted_components(entry: BaseModelEntry) -> tuple[str, ...]:
    """The components of this base model that an adapter may change, the denoiser first."""
    family = FAMILIES[entry.family]
    return family.components if entry.slot.text_encoders else (family.denoiser,)


def _of_folder(folder: Path, family: Family) -> dict[str, Config]:
    found = {}
    for component in family.components:
        try:
            found[component] = json.loads((folder / component / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
    return found


def _bundled(entry: BaseModelEntry) -> Mapping[str, Config]:
    wanted = entry.layout or entry.source.removeprefix(BUILTIN).removeprefix(HUB)
    for name, model in bundled_models().items():
        if wanted.lower() in (name, *map(str.lower, model.repositories)) and model.family.name == entry.family:
            return model.configs
    if entry.layout:
        raise CatalogueInvalid(
            f"The base model {entry.name} has the layout {entry.layout!r}, which is not bundled for its family; there "
            f"are: {', '.join(sorted(bundled_models()))}."
        )
    return {}
