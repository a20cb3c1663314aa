"""Which recipe each machine runs, and which are refused, as ``docs/recipes.md`` shows it: said by the code itself.

``python -m tests.recipes_table`` writes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.catalogue import BaseModelEntry
from shared.errors import RecipeRefused
from shared.footprint import estimate
from shared.known import known_base_models
from shared.load_plan import plan
from shared.machine import Machine, in_gib
from shared.recipe import Recipe
from shared.recipe_rules import MACHINE_RULES, RULES, MachineRule, Rule, Use
from tests.machines import ALL, B200, CPU, GTX_1080_TI, H100, L40S, RTX_4090, T4, card

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "recipes.md"
BEGIN, END = "<!-- {}: begin -->", "<!-- {}: end -->"

COMPILED: dict[str, Any] = {"compile": "regional", "sizes": [[512, 512]]}
FULL: dict[str, Any] = {"compile": "full", "sizes": [[512, 512]]}
FP8: dict[str, Any] = {"quantise": "fp8-dynamic"}
OFFLOAD: dict[str, Any] = {"offload": "model"}


@dataclass(frozen=True)
class WrongPair:
    """What is refused. ``recipe``: the whole one. ``machine``: None where it is wrong on every machine."""

    words: str
    recipe: dict[str, Any]
    base_model: str = "flux.1-dev"
    device: str = "auto"
    dtype: str = "bfloat16"
    machine: Machine | None = None

    @property
    def entry(self) -> dict[str, Any]:
        """It, as a catalogue's table."""
        return {
            "use": self.base_model, "device": self.device, "dtype": self.dtype,
            "recipe": "wrong", "recipes": {"wrong": self.recipe},
        }  # fmt: skip

    @property
    def rule(self) -> Rule | MachineRule:
        """The first that refuses it."""
        family = known_base_models()[self.base_model]["family"]
        device = None if self.device == "auto" else self.device
        use = Use(Recipe.model_validate(self.recipe), family, self.dtype, device)  # type: ignore[arg-type]
        if self.machine is None:
            return next(rule for rule in RULES if rule.broken_by(use))
        return next(rule for rule in MACHINE_RULES if rule.broken_by(use, self.machine))


WRONG_PAIRS = (
    WrongPair("FP8 and offload", FP8 | COMPILED | OFFLOAD),
    WrongPair("quantised, compiled and offloaded", {"quantise": "int8-weight-only"} | COMPILED | OFFLOAD),
    WrongPair("FP8 without the compiler", FP8),
    WrongPair("FP8 of other weights than bfloat16", FP8 | FULL, dtype="float16"),
    WrongPair("FP8 on the CPU", FP8 | FULL, device="cpu"),
    WrongPair("max-autotune and offload", COMPILED | OFFLOAD | {"compile_mode": "max-autotune"}),
    WrongPair("compiled whole and offload", FULL | OFFLOAD),
    WrongPair("offload on the CPU", OFFLOAD, device="cpu"),
    WrongPair("max-autotune of another backend", FULL | {"compile_mode": "max-autotune", "backend": "aot_eager"}),
    WrongPair("fuse and the compiler", FULL | {"fuse": True}),
    WrongPair("fuse and quantised weights", {"fuse": True, "quantise": "int8-weight-only"}),
    WrongPair("FlashAttention 3 on the CPU", {"attention": "flash-3"}, device="cpu"),
    WrongPair("FlashAttention 3 of float32", {"attention": "flash-3"}, dtype="float32"),
    WrongPair("FlashAttention 3 in a UNet", {"attention": "flash-3"}, "sdxl-base-1.0"),
    WrongPair("a quantised text encoder where there is no large one", {"text_encoder": "nf4"}, "sdxl-base-1.0"),
    WrongPair("a card's recipe for the CPU", {"device": "cuda"}, device="cpu"),
    WrongPair("the CPU's recipe for a card", {"device": "cpu"}, device="cuda"),
    WrongPair("a card wanted", {}, device="cuda", machine=CPU),
    WrongPair("a card's recipe", {"device": "cuda"}, machine=CPU),
    WrongPair("FlashAttention 3 off Hopper", {"attention": "flash-3"}, machine=B200),
    WrongPair("FP8 below 8.9", FP8 | FULL, machine=card("A100 80 GB", (8, 0), 80)),
    WrongPair(
        "FP8 weights alone below 8.9, compiled", {"quantise": "fp8-weight-only"} | FULL, dtype="float16", machine=T4
    ),
    WrongPair("the compiler below 7.0", FULL, dtype="float16", machine=GTX_1080_TI),
    WrongPair("offload", OFFLOAD, machine=CPU),
    WrongPair("NF4 below 6.0", {"text_encoder": "nf4"}, dtype="float16", machine=card("GTX 980", (5, 2), 4)),
    WrongPair("bfloat16 below 8.0", {}, machine=T4),
)
"""One for each rule, in the rules' order."""


def entry_of(name: str, **changes: Any) -> BaseModelEntry:
    """A known base model under its own name."""
    return BaseModelEntry.model_validate({"name": name, **known_base_models()[name], **changes})


# --- the tables -----------------------------------------------------------------------------------


def base_models() -> str:
    rows = ["| `use` | from | licence | commercial use |", "| --- | --- | --- | --- |"]
    for name, table in known_base_models().items():
        licence = table["licence"]
        rows.append(f"| `{name}` | `{table['source']}` | {licence['name']} | {licence['commercial']} |")
    return "\n".join(rows)


def recipes() -> str:
    rows = [
        "| base model | recipe | attention | compiled | denoiser | text encoder | offload | memory |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in known_base_models():
        entry = entry_of(name)
        for recipe_name, recipe in entry.recipes.items():
            needed = estimate(entry, recipe)
            assert needed is not None
            dtype = recipe.dtype or entry.dtype
            large = entry.parameters is not None and entry.parameters.large_text_encoder
            encoder = dtype if recipe.text_encoder == "none" else recipe.text_encoder
            denoiser = dtype if recipe.quantise == "none" else recipe.quantise
            rows.append(
                f"| `{name}` | `{recipe_name}` | {recipe.attention} | {recipe.compile} | {denoiser} "
                f"| {encoder if large else f'{dtype}, small'} | {recipe.offload} | {in_gib(needed.total_bytes)} |"
            )
    return "\n".join(rows)


def machines() -> str:
    names = list(known_base_models())
    rows = [f"| machine | {' | '.join(f'`{name}`' for name in names)} |", "| --- " * (len(names) + 1) + "|"]
    for machine in ALL:
        chosen = " | ".join(_chosen(entry_of(name), machine) for name in names)
        rows.append(f"| {machine.title} | {chosen} |")
    return "\n".join(rows)


def _chosen(entry: BaseModelEntry, machine: Machine) -> str:
    try:
        return f"`{plan(entry, machine).recipe_name}`"
    except RecipeRefused:
        return "none"


def reasons() -> str:
    rows = ["| base model | machine | what is said |", "| --- | --- | --- |"]
    for name, machine in (("flux.1-dev", H100), ("flux.1-dev", RTX_4090), ("flux.1-dev", L40S), ("sd1.5", CPU)):
        rows.append(f"| `{name}` | {machine.name} | {plan(entry_of(name), machine).why} |")
    return "\n".join(rows)


def refused() -> str:
    rows = ["| what | where | why not | what to do |", "| --- | --- | --- | --- |"]
    for pair in WRONG_PAIRS:
        where = "everywhere" if pair.machine is None else f"for example {pair.machine.title}"
        rows.append(f"| {pair.words} | {where} | {pair.rule.refusal.reason} | {pair.rule.refusal.fix} |")
    return "\n".join(rows)


def replaced(page: str) -> str:
    """The page with fresh tables between its markers."""
    tables = {
        "base models": base_models, "recipes": recipes, "machines": machines, "reasons": reasons, "refused": refused,
    }  # fmt: skip
    for name, table in tables.items():
        begin, end = BEGIN.format(name), END.format(name)
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}\n{table()}\n{end}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
