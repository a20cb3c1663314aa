"""The base models that are served, read from a TOML file.

An entry says which model it is, how to load it, how its adapter slot looks, and which requests it takes; with ``use``
it takes over whatever it does not say from a model that is known by name (``shared/known.py``).
The bundled ``catalogue.toml`` serves ``tiny-flux``; ``HOTSLOT_CATALOGUE`` names another file.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, field_validator, model_validator

from shared.errors import CatalogueInvalid, Misconfigured, UnknownBaseModel
from shared.known import completed, known_base_models
from shared.recipe import Dtype, Recipe
from shared.recipe_rules import Use, refusal_everywhere
from shared.sources.base_model import base_model_source

BUNDLED = Path(__file__).with_name("catalogue.toml")

AUTO = "auto"
"""In place of a recipe's name: the first that the machine can run."""
EAGER = "eager"
"""Name of the empty recipe, which an entry without recipes has."""


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


class Licence(_Entry):
    """Under which terms the weights may be used. ``name``: SPDX's, or LicenseRef-… ``commercial``: a sentence."""

    name: str
    commercial: str


class Parameters(_Entry):
    """How many weights the components have, and what one picture takes beside them.

    ``text_encoders``: those that adapters may change, together. ``large_text_encoder``: the one that is left as it is,
    with ``large_text_encoder_embeddings``, which stay unquantised. ``denoiser_activations`` and ``vae_activations``:
    numbers that are alive at the worst moment of a step and of the decoding, for each pixel of the picture.
    """

    denoiser: PositiveInt
    text_encoders: PositiveInt
    large_text_encoder: int = Field(default=0, ge=0)
    large_text_encoder_embeddings: int = Field(default=0, ge=0)
    vae: PositiveInt
    denoiser_activations: float = Field(gt=0)
    vae_activations: float = Field(gt=0)


class BaseModelEntry(_Entry):
    """One served base model.

    ``source``: see ``shared/sources/base_model.py``. ``builtin_adapters`` names the adapters that come with it and that
    the worker registers, so the API can tell "not ready yet" from "unknown".

    ``aliases``: names of this base model and its fine-tunes in adapters' metadata (upper and lower case are the same).
    ``example_prompt``: what is shown to people who ask how to begin.
    ``layout``: the bundled model whose layers it has, where the API cannot read its folder.
    ``device``: ``auto`` is a card where there is one. ``recipes``: the best first; ``recipe`` names one of them, or is
    ``auto``: the first that the machine can run. Those for another device are as good as not there.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    family: Literal["flux.1", "sdxl", "sd1.5"]
    source: str
    revision: str = "builtin"
    dtype: Dtype = "bfloat16"
    device: Literal["auto", "cpu", "cuda"] = "cpu"
    recipe: str = AUTO
    recipes: dict[str, Recipe] = Field(default_factory=lambda: {EAGER: Recipe()}, min_length=1)
    licence: Licence | None = None
    parameters: Parameters | None = None
    builtin_adapters: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    layout: str | None = None
    example_prompt: str = "a lighthouse at dusk"
    slot: Slot
    sizes: Sizes
    sampling: Sampling

    @model_validator(mode="after")
    def _source_that_can_be(self) -> BaseModelEntry:
        base_model_source(self.source)
        return self

    @model_validator(mode="after")
    def _recipes_that_can_be(self) -> BaseModelEntry:
        if self.recipe != AUTO and self.recipe not in self.recipes:
            known = ", ".join(self.recipes)
            raise CatalogueInvalid(f'{self.name} has no recipe {self.recipe!r}; write one of {known}, or "{AUTO}".')
        if AUTO in self.recipes:
            raise CatalogueInvalid(f'{self.name}: "{AUTO}" is the choice among recipes; give this one another name.')
        for name, recipe in self.candidates.items():
            if refusal := refusal_everywhere(self.use_of(recipe)):
                raise CatalogueInvalid(f"{self.name}, recipe {name}: {refusal.text}")
            for width, height in recipe.sizes:
                if not (self.sizes.takes(width) and self.sizes.takes(height)):
                    raise CatalogueInvalid(
                        f"{self.name}, recipe {name}: no picture of {width} x {height} is drawn here, so take it out "
                        "of the recipe's sizes."
                    )
        return self

    @property
    def candidates(self) -> dict[str, Recipe]:
        """The recipes that may come into force: the named one, and all that are not meant for another device."""
        devices = ("any", "cpu", "cuda") if self.device == "auto" else ("any", self.device)
        fitting = {
            name: recipe for name, recipe in self.recipes.items() if recipe.device in devices or name == self.recipe
        }
        return fitting or self.recipes

    def use_of(self, recipe: Recipe) -> Use:
        """This recipe with this base model, for the rules."""
        return Use(recipe, self.family, recipe.dtype or self.dtype, None if self.device == "auto" else self.device)

    @property
    def named_recipe(self) -> Recipe:
        """The one recipe that it names; ``Misconfigured`` where a plan has to choose first."""
        if self.recipe in self.recipes:
            return self.recipes[self.recipe]
        if len(self.recipes) == 1:
            return next(iter(self.recipes.values()))
        raise Misconfigured(f"The base model {self.name} has several recipes, and none was chosen yet; name one.")


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
            {
                "base_models": {
                    name: {"name": name, **completed(name, entry, known_base_models())}
                    for name, entry in entries.items()
                }
            }
        )
    except (ValidationError, TypeError) as error:
        raise CatalogueInvalid(f"The catalogue {where} is not valid: {error}") from error
