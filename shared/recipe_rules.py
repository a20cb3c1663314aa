"""Which recipes are refused: pairs that are wrong on every machine, and those that a machine cannot run. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from shared.machine import Machine
from shared.recipe import Dtype, Recipe

Device = Literal["cpu", "cuda"]

FP8 = (8, 9)
"""Least compute capability (Ada) with FP8 arithmetic."""
HOPPER = (9, 0)
BFLOAT16 = (8, 0)
NF4 = (6, 0)
"""Least compute capability that bitsandbytes is built for."""
TRITON = (7, 0)
"""Least compute capability (Volta) that inductor makes code for."""

_WITH_LARGE_TEXT_ENCODER = frozenset({"flux.1"})
_WITH_ATTENTION_BACKENDS = frozenset({"flux.1"})


@dataclass(frozen=True)
class Refusal:
    """Why a recipe is not taken, and what to do about it; both without a full stop."""

    reason: str
    fix: str

    @property
    def text(self) -> str:
        """Both, as the rest of a sentence."""
        return f"{self.reason}; {self.fix}."


@dataclass(frozen=True)
class Use:
    """A recipe where it is used. ``device``: None where the machine decides. ``dtype``: of the weights."""

    recipe: Recipe
    family: str
    dtype: Dtype
    device: Device | None


@dataclass(frozen=True)
class Rule:
    """What is wrong on every machine."""

    broken_by: Callable[[Use], bool]
    refusal: Refusal


@dataclass(frozen=True)
class MachineRule:
    """What is wrong on some machines."""

    broken_by: Callable[[Use, Machine], bool]
    refusal: Refusal


RULES = (
    Rule(
        lambda use: use.recipe.quantise == "fp8-dynamic" and use.recipe.offload != "no",
        Refusal(
            "FP8 weights cannot be offloaded: torchao's tensors do not pass through a compiled model and its hooks",
            'set offload = "no" and make room with text_encoder = "nf4", or set quantise = "none"',
        ),
    ),
    Rule(
        # Seen with int8 too: a weight that compiled code knows cannot be exchanged for its copy elsewhere.
        lambda use: use.recipe.quantise != "none" and use.recipe.offload != "no" and use.recipe.compiles,
        Refusal(
            "quantised weights that compiled code knows cannot be moved, and offload moves them",
            'set compile = "no", or set offload = "no", or set quantise = "none"',
        ),
    ),
    Rule(
        lambda use: use.recipe.quantise == "fp8-dynamic" and not _by_inductor(use.recipe),
        Refusal(
            "FP8 without the compiler is slower than no FP8 at all (by about a third), because nothing fuses the "
            "rounding of the activations",
            'set compile = "full" or "regional" with the backend "inductor", or set quantise = "none"',
        ),
    ),
    Rule(
        lambda use: use.recipe.quantise == "fp8-dynamic" and use.dtype != "bfloat16",
        Refusal("FP8 by rows takes bfloat16 weights alone", 'set dtype = "bfloat16"'),
    ),
    Rule(
        lambda use: use.recipe.quantise == "fp8-dynamic" and use.device == "cpu",
        Refusal("FP8 arithmetic needs a card", 'set quantise = "int8-weight-only" on a CPU'),
    ),
    Rule(
        lambda use: use.recipe.offload != "no" and use.recipe.compile_mode == "max-autotune",
        Refusal(
            "max-autotune records CUDA graphs, which need weights at fixed addresses, and offload moves them",
            'set compile_mode = "default", or set offload = "no"',
        ),
    ),
    Rule(
        lambda use: use.recipe.offload != "no" and use.recipe.compile == "full",
        Refusal(
            "a whole compiled model cannot be offloaded: the hook that moves it would be compiled with it",
            'set compile = "regional", whose blocks lie below the hook, or set offload = "no"',
        ),
    ),
    Rule(
        lambda use: use.recipe.offload != "no" and use.device == "cpu",
        Refusal("there is no card to offload from", 'set offload = "no"'),
    ),
    Rule(
        lambda use: use.recipe.compile_mode == "max-autotune" and use.recipe.backend != "inductor",
        Refusal("max-autotune is a mode of inductor alone", 'set backend = "inductor" or compile_mode = "default"'),
    ),
    Rule(
        lambda use: use.recipe.fuse and use.recipe.compiles,
        Refusal(
            "merging an adapter changes weights that compiled code holds",
            'set fuse = false (a compiled model changes adapters in its slot), or set compile = "no"',
        ),
    ),
    Rule(
        lambda use: use.recipe.fuse and use.recipe.quantise != "none",
        Refusal(
            "an adapter cannot be merged into quantised weights without rounding them anew",
            'set fuse = false, or set quantise = "none"',
        ),
    ),
    Rule(
        lambda use: use.recipe.attention == "flash-3" and use.device == "cpu",
        Refusal("FlashAttention 3 needs a card", 'set attention = "sdpa"'),
    ),
    Rule(
        lambda use: use.recipe.attention == "flash-3" and use.dtype == "float32",
        Refusal(
            "FlashAttention 3 takes bfloat16 and float16 alone", 'set dtype = "bfloat16", or set attention = "sdpa"'
        ),
    ),
    Rule(
        lambda use: use.recipe.attention == "flash-3" and use.family not in _WITH_ATTENTION_BACKENDS,
        Refusal(
            "the attention of diffusers' UNets cannot be exchanged, so FlashAttention 3 would not be in force",
            'set attention = "sdpa"',
        ),
    ),
    Rule(
        lambda use: use.recipe.text_encoder != "none" and use.family not in _WITH_LARGE_TEXT_ENCODER,
        Refusal(
            "this family has no large text encoder, and adapters change its small ones", 'set text_encoder = "none"'
        ),
    ),
    Rule(
        lambda use: use.recipe.device == "cuda" and use.device == "cpu",
        Refusal("it is meant for a card, but the base model's device is the CPU", 'set device = "auto" or "cuda"'),
    ),
    Rule(
        lambda use: use.recipe.device == "cpu" and use.device == "cuda",
        Refusal("it is meant for the CPU, but the base model's device is a card", 'set device = "auto" or "cpu"'),
    ),
)
"""What is refused when a catalogue is read."""

MACHINE_RULES = (
    MachineRule(
        lambda use, machine: use.device == "cuda" and machine.device == "cpu",
        Refusal("the base model wants a card, and there is none", 'start the worker on a card or set device = "auto"'),
    ),
    MachineRule(
        lambda use, machine: use.recipe.device not in ("any", _device(use, machine)),
        Refusal("it is meant for another device", "name or add one for this device"),
    ),
    MachineRule(
        lambda use, machine: use.recipe.attention == "flash-3" and _capability(use, machine) != HOPPER,
        Refusal(
            "FlashAttention 3 is built for Hopper alone (compute capability 9.0: H100, H200)", 'set attention = "sdpa"'
        ),
    ),
    MachineRule(
        lambda use, machine: use.recipe.quantise == "fp8-dynamic" and _capability(use, machine) < FP8,
        Refusal(
            "FP8 arithmetic needs compute capability 8.9 or more (Ada, Hopper, Blackwell)",
            'set quantise = "int8-weight-only" to save memory, or "none"',
        ),
    ),
    MachineRule(
        lambda use, machine: (
            use.recipe.quantise == "fp8-weight-only"
            and _by_inductor(use.recipe)
            and _device(use, machine) == "cuda"
            and _capability(use, machine) < FP8
        ),
        Refusal(
            "the compiler knows no FP8 numbers below compute capability 8.9",
            'set quantise = "int8-weight-only" to save memory, or "none"',
        ),
    ),
    MachineRule(
        lambda use, machine: (
            _by_inductor(use.recipe) and _device(use, machine) == "cuda" and _capability(use, machine) < TRITON
        ),
        Refusal("inductor makes no code for cards below compute capability 7.0 (Volta)", 'set compile = "no"'),
    ),
    MachineRule(
        lambda use, machine: use.recipe.offload != "no" and _device(use, machine) == "cpu",
        Refusal("there is no card to offload from", 'set offload = "no"'),
    ),
    MachineRule(
        lambda use, machine: (
            use.recipe.text_encoder == "nf4" and _device(use, machine) == "cuda" and _capability(use, machine) < NF4
        ),
        Refusal(
            "bitsandbytes, which makes NF4 weights, needs compute capability 6.0 or more",
            'set text_encoder = "int8-weight-only" or "none"',
        ),
    ),
    MachineRule(
        lambda use, machine: (
            use.dtype == "bfloat16" and _device(use, machine) == "cuda" and _capability(use, machine) < BFLOAT16
        ),
        Refusal(
            "there is no bfloat16 arithmetic below compute capability 8.0 (Ampere)",
            'set dtype = "float16" where the model bears it, or "float32"',
        ),
    ),
)
"""What a plan for one machine refuses, before it looks at the memory."""


def refusal_everywhere(use: Use) -> Refusal | None:
    """Why this recipe is wrong on every machine, or None."""
    return next((rule.refusal for rule in RULES if rule.broken_by(use)), None)


def refusal_on(use: Use, machine: Machine) -> Refusal | None:
    """Why this machine cannot run this recipe, or None; its memory is not looked at."""
    return next((rule.refusal for rule in MACHINE_RULES if rule.broken_by(use, machine)), None)


def _by_inductor(recipe: Recipe) -> bool:
    return recipe.compiles and recipe.backend == "inductor"


def _device(use: Use, machine: Machine) -> Device:
    return use.device or machine.device


def _capability(use: Use, machine: Machine) -> tuple[int, int]:
    # Nothing that asks for one runs on a CPU.
    return (machine.capability or (0, 0)) if _device(use, machine) == "cuda" else (0, 0)
