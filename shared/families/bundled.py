"""The families there are, and base models of each whose configs come with Hotslot.

A file in ``configs/`` holds the repository names of a base model and those fields of its components' configs that
decide about its layers. The weights are not looked at, so the API knows a base model's layers without them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from shared.families.family import Config, Family, Layers
from shared.families.flux import FLUX
from shared.families.sd15 import SD15
from shared.families.sdxl import SDXL

FAMILIES = {family.name: family for family in (FLUX, SDXL, SD15)}

_FOLDER = Path(__file__).with_name("configs")


@dataclass(frozen=True)
class BundledModel:
    """A base model whose configs are bundled. ``repositories``: names under which it is published."""

    name: str
    family: Family
    repositories: tuple[str, ...]
    configs: dict[str, Config]

    def layers(self) -> Layers:
        """All layers that an adapter may change."""
        return self.family.layers(self.configs)


@cache
def bundled_models() -> dict[str, BundledModel]:
    """Every base model in ``configs/``, by name."""
    return {path.stem: _read(path) for path in sorted(_FOLDER.glob("*.json"))}


def _read(path: Path) -> BundledModel:
    raw = json.loads(path.read_text(encoding="utf-8"))
    return BundledModel(path.stem, FAMILIES[raw["family"]], tuple(raw["repositories"]), raw["components"])
