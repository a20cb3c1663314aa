"""A FLUX pipeline of random weights with four adapters: made in seconds, any size, whatever dialect a test wants.

What it draws is no picture, but every bit of it depends on prompt, seed and adapters.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from shared.catalogue import BaseModelEntry, Catalogue, read_catalogue
from tests.worker.random_flux.adapters import write_adapters
from tests.worker.random_flux.model import build_pipeline, one_thread

NAME = "random-flux"

_CATALOGUE = """
[base_models.random-flux]
family = "flux.1"
source = "{folder}"
revision = "random"
dtype = "float32"

[base_models.random-flux.slot]
rank_tiers = [16]

[base_models.random-flux.sizes]
multiple_of = 16
smallest = 32
largest = 256
default_width = 128
default_height = 128

[base_models.random-flux.sampling]
default_steps = 8
largest_steps = 100
default_guidance_scale = 3.5
largest_guidance_scale = 20.0
max_prompt_tokens = 64
"""


@dataclass(frozen=True)
class RandomFlux:
    """Where it lies: a diffusers folder, the adapter files by name, and a catalogue that serves it."""

    pipeline_folder: Path
    adapters: dict[str, Path]
    catalogue_file: Path

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue, read."""
        return read_catalogue(self.catalogue_file)

    @property
    def entry(self) -> BaseModelEntry:
        """Its entry in the catalogue."""
        return self.catalogue.get(NAME)


def make_random_flux(folder: Path) -> RandomFlux:
    """Made now below ``folder``, the same bytes every time."""
    pipeline_folder = folder / "pipeline"
    with one_thread():
        pipeline = build_pipeline()
        pipeline.save_pretrained(pipeline_folder, safe_serialization=True)
        write_adapters(pipeline, folder / "adapters")
    catalogue_file = folder / "catalogue.toml"
    catalogue_file.write_text(_CATALOGUE.format(folder=pipeline_folder))
    files = sorted((folder / "adapters").glob("*.safetensors"))
    return RandomFlux(pipeline_folder, {file.stem: file for file in files}, catalogue_file)
