"""Where a base model comes from: a closed set of kinds, read from the catalogue's text. Pure: nothing is opened.

builtin:NAME                  comes with the package
hf:OWNER/NAME                 a diffusers repository on the hub; the entry's ``revision`` pins it
/folder/with/model_index.json a diffusers folder on this machine
/folder/model.safetensors     a single-file checkpoint on this machine
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from shared.errors import CatalogueInvalid, RequestError
from shared.sources.source import SUFFIX, HubFile, parse

BUILTIN = "builtin:"
HUB = "hf:"

_PICKLES = (".ckpt", ".pt", ".pth", ".bin", ".pkl")


@dataclass(frozen=True)
class BuiltinModel:
    """Comes with the package."""

    name: str


@dataclass(frozen=True)
class HubModel:
    """A diffusers repository on the hub."""

    repo: str


@dataclass(frozen=True)
class LocalFolder:
    """A diffusers folder."""

    path: Path


@dataclass(frozen=True)
class LocalFile:
    """A checkpoint in one safetensors file, as it was trained or published for other programs."""

    path: Path


BaseModelSource = BuiltinModel | HubModel | LocalFolder | LocalFile


def base_model_source(text: str) -> BaseModelSource:
    """What the catalogue's ``source`` names; ``CatalogueInvalid`` with what is wrong and what to write."""
    if text.startswith(BUILTIN):
        return BuiltinModel(text.removeprefix(BUILTIN))
    if text.startswith(HUB):
        return _hub_model(text)
    if text.lower().endswith(_PICKLES):
        raise CatalogueInvalid(
            f"The base model {text} is a pickle, which can run any code when it is opened; convert it to safetensors."
        )
    if not text:
        raise CatalogueInvalid("A base model has an empty source; write builtin:NAME, hf:OWNER/NAME or a path.")
    return LocalFile(Path(text)) if text.lower().endswith(SUFFIX) else LocalFolder(Path(text))


def _hub_model(text: str) -> HubModel:
    try:
        found = parse(text)
    except RequestError:
        found = None
    if not isinstance(found, HubFile) or found.file is not None or found.revision is not None:
        raise CatalogueInvalid(
            f"The source {text} names no repository; write hf:OWNER/NAME, and the commit as the entry's revision."
        )
    return HubModel(found.repo)
