"""Every rule has an example, and says about it what it should."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from shared.catalogue import BaseModelEntry, read_catalogue
from shared.errors import CatalogueInvalid, RecipeRefused
from shared.load_plan import plan
from shared.recipe import Recipe
from shared.recipe_rules import MACHINE_RULES, RULES, Refusal
from tests.machines import A100_80, CPU, H100, RTX_4090, T4
from tests.recipes_table import COMPILED, FP8, FULL, OFFLOAD, WRONG_PAIRS, WrongPair

ReadTable = Callable[[dict[str, Any]], BaseModelEntry]


def toml(value: Any) -> str:
    """As an inline value, which is JSON but for its tables."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + "}"
    return json.dumps(value)


@pytest.fixture
def read(tmp_path: Path) -> ReadTable:
    """Reads one entry of a catalogue file."""

    def read_table(table: dict[str, Any]) -> BaseModelEntry:
        lines = [f"{key} = {toml(value)}" for key, value in table.items()]
        (tmp_path / "catalogue.toml").write_text("\n".join(["[base_models.mine]", *lines]))
        return read_catalogue(tmp_path / "catalogue.toml").get("mine")

    return read_table


def test_every_rule_has_its_example() -> None:
    everywhere = [pair.rule for pair in WRONG_PAIRS if pair.machine is None]
    somewhere = [pair.rule for pair in WRONG_PAIRS if pair.machine is not None]
    assert everywhere == list(RULES)
    assert somewhere == list(MACHINE_RULES)


@pytest.mark.parametrize("pair", [pair for pair in WRONG_PAIRS if pair.machine is None], ids=lambda pair: pair.words)
def test_a_catalogue_with_a_wrong_pair_is_not_read(pair: WrongPair, read: ReadTable) -> None:
    refusal = pair.rule.refusal
    with pytest.raises(CatalogueInvalid) as caught:
        read(pair.entry)
    assert f"mine, recipe wrong: {refusal.reason}; {refusal.fix}." in caught.value.message


@pytest.mark.parametrize("pair", [pair for pair in WRONG_PAIRS if pair.machine], ids=lambda pair: pair.words)
def test_a_machine_that_cannot_run_it_says_so(pair: WrongPair, read: ReadTable) -> None:
    assert pair.machine is not None
    refusal = pair.rule.refusal
    entry = read(pair.entry)
    with pytest.raises(RecipeRefused) as caught:
        plan(entry, pair.machine)
    start = f"{pair.machine.title} cannot run mine with the recipe wrong: {refusal.reason}; {refusal.fix}."
    assert caught.value.message.startswith(start)


@pytest.mark.parametrize("rule", [*RULES, *MACHINE_RULES], ids=lambda rule: rule.refusal.reason[:30])
def test_reason_and_fix_are_parts_of_a_sentence(rule: Any) -> None:
    refusal: Refusal = rule.refusal
    assert not re.search(r"\.$", refusal.reason + refusal.fix)
    assert re.match(r"(set|name|start) ", refusal.fix), "it says what to do"


@pytest.mark.parametrize(
    ("said", "pair"),
    [
        ("without the compiler is slower", WrongPair("eager backend", FP8 | FULL | {"backend": "eager"})),
        ("cannot be moved", WrongPair("FP8 weights alone", {"quantise": "fp8-weight-only"} | COMPILED | OFFLOAD)),
        ("no large text encoder", WrongPair("int8", {"text_encoder": "int8-weight-only"}, "sd1.5")),
        ("bfloat16 weights alone", WrongPair("the recipe's dtype", FP8 | FULL | {"dtype": "float32"})),
    ],
)
def test_near_relations_are_refused_too(said: str, pair: WrongPair, read: ReadTable) -> None:
    with pytest.raises(CatalogueInvalid, match=said):
        read(pair.entry)


@pytest.mark.parametrize(
    "pair",
    [
        WrongPair("FP8 on Hopper", FP8 | FULL | {"attention": "flash-3"}, machine=H100),
        WrongPair("FP8 on Ada with NF4", FP8 | COMPILED | {"text_encoder": "nf4"}, machine=RTX_4090),
        WrongPair("offload of compiled blocks", COMPILED | OFFLOAD, machine=H100),
        WrongPair("offload of quantised weights", OFFLOAD | {"quantise": "int8-weight-only"}, machine=H100),
        WrongPair("fuse", {"fuse": True}, machine=H100),
        WrongPair("max-autotune", FULL | {"compile_mode": "max-autotune"}, machine=A100_80),
        WrongPair("int8 on the CPU", {"quantise": "int8-weight-only"} | COMPILED, device="cpu", machine=CPU),
        WrongPair("FP8 weights alone, on a CPU", {"quantise": "fp8-weight-only"} | COMPILED, machine=CPU),
        WrongPair("FP8 weights alone, uncompiled", {"quantise": "fp8-weight-only"}, machine=A100_80),
        WrongPair("float16 on a T4", COMPILED, "sd1.5", dtype="float16", machine=T4),
    ],
    ids=lambda pair: pair.words,
)
def test_good_pairs_are_taken(pair: WrongPair, read: ReadTable) -> None:
    assert pair.machine is not None
    assert plan(read(pair.entry), pair.machine).recipe_name == "wrong"


def test_a_recipe_alone_can_be_wrong() -> None:
    with pytest.raises(ValidationError, match="needs `sizes`"):
        Recipe(compile="full")
    with pytest.raises(ValidationError, match='`compile` is "no"'):
        Recipe(sizes=((512, 512),))
    with pytest.raises(ValidationError, match="Input should be"):
        Recipe.model_validate({"quantise": "int3"})


def test_sizes_that_are_not_drawn_are_not_compiled(read: ReadTable) -> None:
    with pytest.raises(CatalogueInvalid, match="no picture of 500 x 512 is drawn here"):
        read(WrongPair("", {"compile": "full", "sizes": [[500, 512]]}).entry)


def test_unknown_recipes_and_the_name_of_the_choice(read: ReadTable) -> None:
    with pytest.raises(CatalogueInvalid, match="has no recipe 'fast'; write one of half, low-vram, cpu, or"):
        read({"use": "sd1.5", "recipe": "fast"})
    with pytest.raises(CatalogueInvalid, match="give this one another name"):
        read({"use": "sd1.5", "recipes": {"auto": {}}})
