"""Which recipe a base model runs with on a machine, why, and the steps to get there. A pure value; a worker acts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from shared.catalogue import AUTO, BaseModelEntry
from shared.errors import RecipeRefused
from shared.footprint import Estimate, estimate
from shared.machine import Machine, in_gib
from shared.recipe import Recipe
from shared.recipe_rules import Device, Refusal, refusal_on
from shared.sources.base_model import HubModel, base_model_source


class Step(StrEnum):
    """What a worker does before it takes jobs, in this order; the order is part of what is promised."""

    DOWNLOAD = "download"
    LOAD = "load"
    QUANTISE = "quantise"
    INJECT = "inject"
    ATTENTION = "attention"
    COMPILE = "compile"
    OFFLOAD = "offload"
    WARM = "warm"


@dataclass(frozen=True)
class LoadPlan:
    """How one base model is loaded on one machine.

    ``why``: why this recipe, in a sentence, with what stood against those before it. ``estimate``: None where the
    entry does not tell the number of its weights, so that nothing was compared with the memory.
    """

    entry: str
    device: Device
    recipe_name: str
    recipe: Recipe
    why: str
    estimate: Estimate | None
    steps: tuple[Step, ...]

    def settled(self, entry: BaseModelEntry) -> BaseModelEntry:
        """The same entry with this recipe, device and dtype, and nothing left to choose."""
        decided = {"device": self.device, "recipe": self.recipe_name, "dtype": self.recipe.dtype or entry.dtype}
        return entry.model_copy(update=decided)


def plan(entry: BaseModelEntry, machine: Machine) -> LoadPlan:
    """The recipe that the entry names, or for ``auto`` the first that this machine can run.

    ``RecipeRefused`` says why there is none, and what would fit. An entry for the CPU is compared with the memory of a
    machine without a card alone: how much a card's computer has is not known here.
    """
    names = list(entry.candidates) if entry.recipe == AUTO else [entry.recipe]
    refused: dict[str, Refusal] = {}
    for name in names:
        refusal = refusal_of(entry, entry.recipes[name], machine)
        if refusal is None:
            return _plan(entry, name, machine, refused)
        refused[name] = refusal
    raise RecipeRefused(_none_fits(entry, machine, refused))


def refusal_of(entry: BaseModelEntry, recipe: Recipe, machine: Machine) -> Refusal | None:
    """Why this machine cannot run the entry with this recipe, its memory included; None if it can."""
    return refusal_on(entry.use_of(recipe), machine) or _too_large(entry, recipe, machine)


def in_words(needed: Estimate, entry: BaseModelEntry, note: str = "") -> str:
    """The whole of an estimate, with its parts in brackets."""
    return (
        f"{in_gib(needed.total_bytes)} (weights {in_gib(needed.weights_bytes)}, text encoders "
        f"{in_gib(needed.text_encoders_bytes)}, slot of rank {entry.slot.top_rank} {in_gib(needed.slot_bytes)}, "
        f"activations at {entry.sizes.largest} x {entry.sizes.largest} {in_gib(needed.activations_bytes)}{note})"
    )


def _plan(entry: BaseModelEntry, name: str, machine: Machine, refused: Mapping[str, Refusal]) -> LoadPlan:
    recipe = entry.recipes[name]
    return LoadPlan(
        entry=entry.name,
        device="cpu" if entry.device == "cpu" else machine.device,
        recipe_name=name,
        recipe=recipe,
        why=_why(entry, name, machine, refused),
        estimate=estimate(entry, recipe),
        steps=tuple(_steps(entry, recipe)),
    )


def _steps(entry: BaseModelEntry, recipe: Recipe) -> Iterator[Step]:
    if isinstance(base_model_source(entry.source), HubModel):
        yield Step.DOWNLOAD
    yield Step.LOAD
    if recipe.quantise != "none" or recipe.text_encoder != "none":
        yield Step.QUANTISE
    yield Step.INJECT
    if recipe.attention != "sdpa":
        yield Step.ATTENTION
    if recipe.compiles:
        yield Step.COMPILE
    if recipe.offload != "no":
        yield Step.OFFLOAD
    yield Step.WARM


def _why(entry: BaseModelEntry, name: str, machine: Machine, refused: Mapping[str, Refusal]) -> str:
    if entry.recipe != AUTO:
        return f"The catalogue names the recipe {name}."
    if not refused:
        return f"The recipe {name} is the first of {entry.name}, and {machine.title} can run it."
    return f"The recipe {name} is the first that {machine.title} can run. {_listed(refused)}"


def _none_fits(entry: BaseModelEntry, machine: Machine, refused: Mapping[str, Refusal]) -> str:
    if entry.recipe == AUTO:
        return f"{machine.title} can run no recipe of {entry.name}. {_listed(refused, fixes=True)}"
    others = [
        name
        for name, recipe in entry.candidates.items()
        if name not in refused and refusal_of(entry, recipe, machine) is None
    ]
    instead = f" The recipe {others[0]} would fit." if others else " No other recipe of it would fit."
    return f"{machine.title} cannot run {entry.name} with the recipe {_listed(refused, fixes=True)}{instead}"


def _listed(refused: Mapping[str, Refusal], fixes: bool = False) -> str:
    same: dict[Refusal, list[str]] = {}
    for name, refusal in refused.items():
        same.setdefault(refusal, []).append(name)
    return " ".join(
        f"{', '.join(names)}: {refusal.text if fixes else f'{refusal.reason}.'}" for refusal, names in same.items()
    )


def _too_large(entry: BaseModelEntry, recipe: Recipe, machine: Machine) -> Refusal | None:
    needed = estimate(entry, recipe)
    if needed is None or (entry.device == "cpu" and machine.device == "cuda"):
        return None
    if machine.device == "cpu" and needed.loading_bytes > max(needed.total_bytes, machine.free_bytes):
        return Refusal(
            f"its weights take {in_gib(needed.loading_bytes)} until they are quantised, and of "
            f"{in_gib(machine.memory_bytes)} only {in_gib(machine.free_bytes)} are free",
            "use a machine with more memory",
        )
    if needed.total_bytes <= machine.free_bytes:
        return None
    turns = ", of which components take turns" if recipe.offload != "no" else ""
    return Refusal(
        f"it needs about {in_words(needed, entry, turns)}, and of {in_gib(machine.memory_bytes)} only "
        f"{in_gib(machine.free_bytes)} are free",
        _smaller(entry, recipe, machine),
    )


def _smaller(entry: BaseModelEntry, recipe: Recipe, machine: Machine) -> str:
    fitting = [tier for tier in entry.slot.rank_tiers if _fits_with(entry, recipe, machine, tier)]
    if fitting:
        return f"leave out the rank tiers above {fitting[-1]}, and it fits"
    return "take a smaller recipe, lower sizes.largest, or use a machine with more memory"


def _fits_with(entry: BaseModelEntry, recipe: Recipe, machine: Machine, tier: int) -> bool:
    slot = entry.slot.model_copy(update={"rank_tiers": (tier,)})
    needed = estimate(entry.model_copy(update={"slot": slot}), recipe)
    return needed is not None and needed.total_bytes <= machine.free_bytes
