"""``python -m worker --plan``: what each base model would run with on this machine, and why. Nothing is loaded."""

from __future__ import annotations

import sys

from shared.catalogue import BaseModelEntry, Catalogue, read_catalogue
from shared.errors import RecipeRefused
from shared.load_plan import in_words, plan
from shared.machine import Machine, in_gib
from shared.settings import Settings
from worker.machine import read_machine


def show_plans(settings: Settings) -> int:
    """Print the plans; 0 if this machine can run every base model of the catalogue, else 1."""
    text, all_run = plans_in_words(read_catalogue(settings.catalogue), read_machine())
    sys.stdout.write(text)
    return 0 if all_run else 1


def plans_in_words(catalogue: Catalogue, machine: Machine) -> tuple[str, bool]:
    """A paragraph for the machine and one for each base model, and whether all of them run. Pure."""
    paragraphs = [
        f"{machine.title}: {in_gib(machine.free_bytes)} of {in_gib(machine.memory_bytes)} are free.",
    ]
    all_run = True
    for entry in catalogue.base_models.values():
        try:
            paragraphs.append(_plan_in_words(entry, machine))
        except RecipeRefused as error:
            all_run = False
            paragraphs.append(f"{entry.name}: none\n  {error.message}")
    return "\n\n".join(paragraphs) + "\n", all_run


def _plan_in_words(entry: BaseModelEntry, machine: Machine) -> str:
    found = plan(entry, machine)
    memory = "The entry has no parameters, so its memory was not estimated."
    if found.estimate is not None:
        memory = f"It takes about {in_words(found.estimate, entry)}."
    return "\n  ".join(
        [f"{entry.name}: {found.recipe_name} on {found.device}", found.why, memory, f"Steps: {', '.join(found.steps)}."]
    )
