"""What each class of machine runs, and why; no machine is needed for it."""

from __future__ import annotations

import pytest

from shared.catalogue import BaseModelEntry
from shared.errors import RecipeRefused
from shared.known import known_base_models
from shared.load_plan import LoadPlan, Step, plan
from shared.machine import GIB, Machine
from tests.machines import (
    A100_40,
    A100_80,
    ALL,
    B200,
    CPU,
    GTX_1080_TI,
    H100,
    H200,
    L40S,
    RTX_3060,
    RTX_3070,
    RTX_3090,
    RTX_4060_TI,
    RTX_4090,
    SMALL_CPU,
    T4,
    half_taken,
)
from tests.recipes_table import entry_of

FLUX = {
    CPU: "cpu", RTX_4060_TI: "low-vram", RTX_3090: "int8-24gb", RTX_4090: "ada-24gb", A100_40: "bf16",
    A100_80: "bf16", L40S: "fp8", H100: "hopper", H200: "hopper", B200: "fp8",
    half_taken(H100): "hopper", half_taken(A100_80): "bf16", half_taken(A100_40): "int8-24gb",
    half_taken(L40S): "ada-24gb",
}  # fmt: skip
SDXL = {
    CPU: "cpu", T4: "half", RTX_3060: "low-vram", RTX_4090: "half", A100_80: "half", H100: "half", B200: "half",
    half_taken(RTX_4090): "low-vram", half_taken(H100): "half",
}  # fmt: skip
SD15 = {CPU: "cpu", T4: "half", RTX_3070: "half", H100: "half", half_taken(RTX_3070): "half"}


@pytest.mark.parametrize(
    ("name", "machine", "expected"),
    [
        (name, machine, recipe)
        for names, table in (
            (["flux.1-dev", "flux.1-schnell"], FLUX),
            (["sdxl-base-1.0"], SDXL),
            (["sd1.5"], SD15),
            (["tiny-flux"], dict.fromkeys(ALL, "eager")),
        )
        for name in names
        for machine, recipe in table.items()
    ],
    ids=lambda value: value.title if isinstance(value, Machine) else value,
)
def test_auto_takes_the_best_that_runs(name: str, machine: Machine, expected: str) -> None:
    found = plan(entry_of(name), machine)
    assert found.recipe_name == expected
    assert found.estimate is not None
    assert found.estimate.total_bytes <= machine.free_bytes
    assert found.device == ("cpu" if name == "tiny-flux" else machine.device)
    assert expected in found.why
    assert found.why.endswith(".")
    for better in list(entry_of(name).recipes)[: list(entry_of(name).recipes).index(expected)]:
        assert better in found.why, "it says what stood against each better one"


@pytest.mark.parametrize(
    ("name", "machine", "said"),
    [
        ("flux.1-dev", T4, "there is no bfloat16 arithmetic below compute capability 8.0"),
        ("flux.1-dev", RTX_3060, "and of 12.0 GiB only 11.5 GiB are free"),
        ("flux.1-dev", half_taken(RTX_4090), "and of 24.0 GiB only 12.0 GiB are free"),
        (
            "flux.1-dev",
            SMALL_CPU,
            "its weights take 31.4 GiB until they are quantised, and of 8.0 GiB only 6.0 GiB are",
        ),
        ("sdxl-base-1.0", SMALL_CPU, "and of 8.0 GiB only 6.0 GiB are free"),
        ("flux.1-dev", GTX_1080_TI, "inductor makes no code"),
        ("sdxl-base-1.0", RTX_3070, "leave out the rank tiers above 16, and it fits"),
    ],
)
def test_where_nothing_runs_it_says_why(name: str, machine: Machine, said: str) -> None:
    with pytest.raises(RecipeRefused) as caught:
        plan(entry_of(name), machine)
    assert caught.value.message.startswith(f"{machine.title} can run no recipe of {name}. ")
    assert said in caught.value.message


def test_what_is_asked_of_the_operator_helps() -> None:
    smaller = known_base_models()["sdxl-base-1.0"]["sizes"] | {"largest": 1024}
    assert plan(entry_of("sdxl-base-1.0", sizes=smaller), RTX_3070).recipe_name == "low-vram"
    assert plan(entry_of("flux.1-dev", dtype="float16"), T4).recipe_name == "low-vram"


def test_one_reason_is_said_once() -> None:
    why = plan(entry_of("flux.1-dev"), A100_80).why
    assert why == (
        "The recipe bf16 is the first that A100 80 GB (compute capability 8.0) can run. hopper: FlashAttention 3 is "
        "built for Hopper alone (compute capability 9.0: H100, H200). fp8, ada-24gb: FP8 arithmetic needs compute "
        "capability 8.9 or more (Ada, Hopper, Blackwell)."
    )


def test_a_named_recipe_is_taken_or_refused_with_one_that_fits() -> None:
    found = plan(entry_of("flux.1-dev", recipe="low-vram"), H100)
    assert (found.recipe_name, found.why) == ("low-vram", "The catalogue names the recipe low-vram.")
    with pytest.raises(RecipeRefused, match=r"The recipe ada-24gb would fit\.$"):
        plan(entry_of("flux.1-dev", recipe="hopper"), RTX_4090)
    with pytest.raises(RecipeRefused, match=r"No other recipe of it would fit\.$"):
        plan(entry_of("flux.1-dev", recipe="hopper"), RTX_3060)


def test_a_tier_above_the_memory_is_refused_with_the_tier_that_fits() -> None:
    tall = {"rank_tiers": [16, 1024], "text_encoders": True}
    with pytest.raises(RecipeRefused, match=r"slot of rank 1024 .* leave out the rank tiers above 16, and it fits"):
        plan(entry_of("flux.1-dev", slot=tall, recipe="ada-24gb"), RTX_4090)


def test_the_device_of_the_entry_decides() -> None:
    assert plan(entry_of("sd1.5", device="cpu"), CPU).recipe_name == "cpu"
    # How much memory the card's computer has is not known, so it is not compared.
    on_a_card = plan(entry_of("sd1.5", device="cpu"), H100)
    assert (on_a_card.recipe_name, on_a_card.device) == ("cpu", "cpu")
    with pytest.raises(RecipeRefused, match="wants a card, and there is none"):
        plan(entry_of("sd1.5", device="cuda"), CPU)


STEPS = {
    ("flux.1-dev", "hopper"): (H100, "download load quantise inject attention compile warm"),
    ("flux.1-dev", "fp8"): (L40S, "download load quantise inject compile warm"),
    ("flux.1-dev", "ada-24gb"): (RTX_4090, "download load quantise inject compile warm"),
    ("flux.1-dev", "bf16"): (A100_80, "download load inject compile warm"),
    ("flux.1-dev", "low-vram"): (RTX_4060_TI, "download load quantise inject offload warm"),
    ("flux.1-dev", "cpu"): (CPU, "download load quantise inject warm"),
    ("sdxl-base-1.0", "low-vram"): (RTX_3060, "download load inject compile offload warm"),
    ("tiny-flux", "eager"): (CPU, "load inject warm"),
    ("tiny-flux", "int8-compiled"): (CPU, "load quantise inject compile warm"),
}


@pytest.mark.parametrize(("which", "expected"), STEPS.items(), ids=lambda value: " ".join(map(str, value))[:30])
def test_the_steps_and_their_order(which: tuple[str, str], expected: tuple[Machine, str]) -> None:
    name, recipe = which
    machine, steps = expected
    assert " ".join(plan(entry_of(name, recipe=recipe), machine).steps) == steps


@pytest.mark.parametrize("name", known_base_models())
def test_every_plan_keeps_the_order(name: str) -> None:
    order = list(Step)
    assert order == ["download", "load", "quantise", "inject", "attention", "compile", "offload", "warm"]
    for machine in (Machine("cuda", "a card", (9, 0), 200 * GIB, 200 * GIB), CPU):
        for recipe in entry_of(name).recipes:
            try:
                steps = plan(entry_of(name, recipe=recipe), machine).steps
            except RecipeRefused:
                continue
            assert list(steps) == sorted(steps, key=order.index)
            assert {Step.LOAD, Step.INJECT, Step.WARM} <= set(steps)


def test_a_folder_is_not_downloaded() -> None:
    assert Step.DOWNLOAD not in plan(entry_of("sd1.5", source="/models/sd"), CPU).steps


def test_a_plan_settles_the_entry() -> None:
    def settled(entry: BaseModelEntry, machine: Machine) -> tuple[BaseModelEntry, LoadPlan]:
        found = plan(entry, machine)
        return found.settled(entry), found

    entry, found = settled(entry_of("sdxl-base-1.0"), CPU)
    assert (entry.device, entry.recipe, entry.dtype) == ("cpu", "cpu", "float32")
    assert entry.named_recipe == found.recipe
    assert plan(entry, CPU).recipe_name == "cpu"
    entry, _ = settled(entry_of("sdxl-base-1.0"), H100)
    assert (entry.device, entry.recipe, entry.dtype) == ("cuda", "half", "float16")
