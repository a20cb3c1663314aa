"""The base models that are served, read from a TOML file.

An entry says which model it is, how to load it, how its adapter slot looks, and which requests it takes.
The bundled ``catalogue.toml`` serves ``tiny-flux``; ``HOTSLOT_CATALOGUE`` names another file.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, field_validator, model_validator

from shared.errors import CatalogueInvalid, UnknownBaseModel

BUNDLED = Path(__file__).with_name("catalogue.toml")


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Slot(_Entry):
    """The adapter slot. ``rank_tiers``: ascending; the last is the largest summed rank that a job's adapters may have.

    A compiled denoiser has a graph for each tier, and an adapter runs at the smallest tier that takes it; uncompiled
    ones run every adapter at its own rank. ``text_encoders``: whether adapters may change the text encoders too.
    """

    rank_tiers: tuple[PositiveInt, ...] = Field(min_length=1)
    text_encoders: bool = False

    @field_validator("rank_tiers")
    @classmethod
    def _ascending(cls, tiers: tuple[int, ...]) -> tuple[int, ...]:
        if list(tiers) != sorted(set(tiers)):
            raise ValueError("the rank tiers must ascend")
        return tiers

    @property
    def top_rank(self) -> int:
        """Largest summed rank that a job's adapters may have."""
        return self.rank_tiers[-1]


class Sizes(_Entry):
    """Image sizes in pixels: ``multiple_of`` steps from ``smallest`` to ``largest``, for width and height alike."""

    multiple_of: int = Field(ge=1)
    smallest: int = Field(ge=1)
    largest: int
    default_width: int
    default_height: int

    @model_validator(mode="after")
    def _ordered(self) -> Sizes:
        for value in (self.smallest, self.largest, self.default_width, self.default_height):
            if not self.takes(value):
                raise ValueError(f"{value} is not a multiple of {self.multiple_of} within the limits")
        return self

    def takes(self, pixels: float) -> bool:
        """Whether an image may be so wide, or so high."""
        return pixels % self.multiple_of == 0 and self.smallest <= pixels <= self.largest


class Sampling(_Entry):
    """Denoising limits and defaults. ``negative_prompt``, ``guidance``: whether they have any effect on this model."""

    default_steps: int = Field(ge=1)
    largest_steps: int = Field(ge=1)
    default_guidance_scale: float
    largest_guidance_scale: float
    max_prompt_tokens: int = Field(ge=1)
    negative_prompt: bool = False
    guidance: bool = True


class Compile(_Entry):
    """How the denoiser is compiled, by torch.compile with this backend.

    ``sizes``: width and height of the pictures that it is compiled for, at the worker's start. Pictures of any other
    size are drawn uncompiled, which takes longer.
    """

    sizes: tuple[tuple[int, int], ...] = Field(min_length=1)
    # The last two need no C++ compiler, and compute as uncompiled models do.
    backend: Literal["inductor", "aot_eager", "eager"] = "inductor"


class BaseModelEntry(_Entry):
    """One served base model.

    ``source`` is ``builtin:NAME`` (comes with the package) or a local diffusers folder. ``builtin_adapters`` names the
    adapters that come with it and that the worker registers, so the API can tell "not ready yet" from "unknown".

    ``aliases``: names of this base model and its fine-tunes in adapters' metadata (upper and lower case are the same).
    ``example_prompt``: what is shown to people who ask how to begin.
    ``layout``: the bundled model whose layers it has, where the API cannot read its folder.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    family: Literal["flux.1", "sdxl", "sd1.5"]
    source: str
    revision: str = "builtin"
    dtype: Literal["float32", "bfloat16", "float16"] = "bfloat16"
    device: str = "cpu"
    recipe: Literal["eager", "compiled"] = "eager"
    builtin_adapters: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    layout: str | None = None
    example_prompt: str = "a lighthouse at dusk"
    slot: Slot
    sizes: Sizes
    sampling: Sampling
    compile: Compile | None = None

    @model_validator(mode="after")
    def _compiled_as_the_recipe_says(self) -> BaseModelEntry:
        if (self.recipe == "compiled") != (self.compile is not None):
            raise ValueError('the recipe "compiled" needs a table `compile` with its sizes, and no other takes one')
        for size in self.compile.sizes if self.compile else ():
            if not all(map(self.sizes.takes, size)):
                raise ValueError(f"no picture of {size[0]} x {size[1]} is drawn here, so nothing is compiled for it")
        return self


class Catalogue(_Entry):
    """All served base models by name."""

    base_models: dict[str, BaseModelEntry]

    def get(self, name: str) -> BaseModelEntry:
        """The entry of that name, or ``UnknownBaseModel`` that lists what is served."""
        try:
            return self.base_models[name]
        except KeyError:
            served = ", ".join(sorted(self.base_models))
            raise UnknownBaseModel(
                f"base_model: {name!r} is not served here; choose one of: {served}.", field="base_model"
            ) from None


def read_catalogue(path: Path | None = None) -> Catalogue:
    """Read and validate a catalogue, by default the bundled one; ``CatalogueInvalid`` says what is wrong."""
    where = path or BUNDLED
    try:
        raw = tomllib.loads(where.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CatalogueInvalid(f"The catalogue {where} cannot be read: {error}") from error
    entries = raw.get("base_models", {})
    if not isinstance(entries, dict) or not entries:
        raise CatalogueInvalid(f"The catalogue {where} names no base model; add a [base_models.NAME] table.")
    try:
        return Catalogue.model_validate(
            {"base_models": {name: {"name": name, **entry} for name, entry in entries.items()}}
        )
    except (ValidationError, TypeError) as error:
        raise CatalogueInvalid(f"The catalogue {where} is not valid: {error}") from error
