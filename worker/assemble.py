"""Acting on a load plan: step by step from a source to a pipeline with its slot, quantised and compiled as planned.

The order decides. Quantised after the slot, PEFT's layers would hide the weights; compiled before it, the first swap
would compile again; moved to the card before it is quantised, a model would not fit where it is meant to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from shared.adapters.base import BaseLayers
from shared.adapters.served import adapted_components
from shared.catalogue import BaseModelEntry
from shared.load_plan import LoadPlan, Step, plan
from worker.compiled import State, compile_in_place, states
from worker.families.family import TorchFamily
from worker.families.table import TORCH_FAMILIES
from worker.layout import Layouts
from worker.load import read_pipeline, slot_dtype
from worker.machine import read_machine
from worker.slot import Slot

log = logging.getLogger(__name__)

Tell = Callable[[str], None]
"""Takes in a few words what a worker is at while it starts."""


@dataclass
class Assembly:
    """A base model while the steps of its plan are taken; each makes or changes its part.

    ``entry``: settled, so nothing is left to choose. ``revision``: of the bytes that were loaded. ``states``: what the
    denoiser is warmed for; none where it is not compiled.
    """

    plan: LoadPlan
    entry: BaseModelEntry
    tell: Tell
    pipeline: Any = field(init=False)
    revision: str = field(init=False)
    base: BaseLayers = field(init=False)
    layouts: Layouts = field(init=False)
    slot: Slot = field(init=False)
    states: list[State] = field(init=False, default_factory=list)

    @property
    def family(self) -> TorchFamily:
        """Its family."""
        return TORCH_FAMILIES[self.entry.family]

    @property
    def denoiser(self) -> nn.Module:
        """The module that is called at every step."""
        found: nn.Module = getattr(self.pipeline, self.family.family.denoiser)
        return found


def planned(entry: BaseModelEntry) -> LoadPlan:
    """The plan for this machine; ``RecipeRefused`` if it can run none."""
    return plan(entry, read_machine())


def assemble(chosen: LoadPlan, entry: BaseModelEntry, tell: Tell = log.info) -> Assembly:
    """Take every step of the plan but the warm-up, for which the engine draws.

    Raises ``Misconfigured`` if the source is not there or a library that the recipe needs is missing,
    ``WeightsAltered`` if a built-in file is not the one that was released.
    """
    assembly = Assembly(chosen, chosen.settled(entry), tell)
    for step in chosen.steps:
        if step in ACTIONS:
            tell(step)
            ACTIONS[step](assembly)
    return assembly


def _load(assembly: Assembly) -> None:
    assembly.pipeline, assembly.revision = read_pipeline(assembly.entry)
    components = _adapted(assembly)
    layers = assembly.family.family.layers({name: _config(module) for name, module in components.items()})
    assembly.base = BaseLayers(assembly.family.family, layers, assembly.entry.slot.top_rank)


def _inject(assembly: Assembly) -> None:
    entry, dtype = assembly.entry, slot_dtype(assembly.entry)
    if entry.named_recipe.offload == "no":
        assembly.pipeline.to(entry.device)
    compiled = frozenset([assembly.family.family.denoiser] if entry.named_recipe.compiles else [])
    assembly.layouts = Layouts(assembly.base.layers, dtype.itemsize, compiled)
    assembly.slot = Slot(_adapted(assembly), assembly.layouts, entry.slot.rank_tiers, dtype, entry.device)


def _compile(assembly: Assembly) -> None:
    assembly.states = states(assembly.entry, assembly.family.guided_twice)
    compile_in_place(assembly.denoiser, assembly.entry.named_recipe.backend, len(assembly.states))


ACTIONS: Mapping[Step, Callable[[Assembly], None]] = {Step.LOAD: _load, Step.INJECT: _inject, Step.COMPILE: _compile}


def _adapted(assembly: Assembly) -> dict[str, nn.Module]:
    return {name: getattr(assembly.pipeline, name) for name in adapted_components(assembly.entry)}


def _config(module: Any) -> Mapping[str, Any]:
    # transformers has an object, diffusers a mapping.
    config = module.config
    found: Mapping[str, Any] = config.to_dict() if hasattr(config, "to_dict") else config
    return found
