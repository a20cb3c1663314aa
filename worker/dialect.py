"""From the keys of a file to the layers of a base model: which tensor is which, all of them accounted for. No torch.

The diffusers dialect: ``transformer.<layer>`` and then one of the pairs of endings below, and optionally ``.alpha``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared.errors import AdapterMismatch, AdapterRankTooLarge, AdapterUnsupported
from worker.header import Header, TensorEntry
from worker.kinds import EXPECTED, PREFIX, named, refusal, refuse_foreign
from worker.lora_config import LoraConfig, read_lora_config

PAIRS = (
    (".lora_A.weight", ".lora_B.weight"),
    (".lora_down.weight", ".lora_up.weight"),
    (".lora.down.weight", ".lora.up.weight"),
)
ALPHA = ".alpha"
FLOATS = frozenset(("F64", "F32", "F16", "BF16"))


@dataclass(frozen=True)
class LayerShape:
    """A linear layer of the base model: widths of its input and output."""

    inputs: int
    outputs: int


@dataclass(frozen=True)
class LayerPlan:
    """Where one layer's part lies in the file: keys of A (rank x inputs), B (outputs x rank) and alpha."""

    layer: str
    down: str
    up: str
    alpha: str | None
    rank: int


@dataclass(frozen=True)
class AdapterPlan:
    """All layers of one file, sorted by name; together their keys are all of the file's keys."""

    layers: tuple[LayerPlan, ...]
    config: LoraConfig | None

    @property
    def rank(self) -> int:
        """Largest rank over the layers."""
        return max(layer.rank for layer in self.layers)


def plan_adapter(header: Header, shapes: Mapping[str, LayerShape], top_rank: int) -> AdapterPlan:
    """What the file holds for a base model of these layers, or the ``AdapterError`` that refuses it.

    ``top_rank``: largest rank that the slot takes.
    """
    refuse_foreign(header.tensors)
    for name, entry in header.tensors.items():
        if entry.dtype not in FLOATS:
            raise AdapterUnsupported(f"{name[:100]} is stored as {entry.dtype}; only {_listed(FLOATS)} are served.")
    config = read_lora_config(header.metadata)
    grouped = _by_layer(list(header.tensors))
    unknown = sorted(layer for layer in grouped if layer not in shapes)
    if unknown:
        raise AdapterMismatch(f"the base model has no such layers: {named(unknown)}.")
    plans = tuple(_plan_layer(layer, keys, header.tensors, shapes[layer]) for layer, keys in sorted(grouped.items()))
    for plan in plans:
        if plan.rank > top_rank:
            raise AdapterRankTooLarge(
                f"{plan.layer} has rank {plan.rank}; the largest rank that is served here is {top_rank}."
            )
    return AdapterPlan(plans, config)


def _by_layer(keys: list[str]) -> dict[str, dict[str, str]]:
    """Keys by layer and by part: ``down``, ``up``, ``alpha``."""
    endings = _endings(keys)
    grouped: dict[str, dict[str, str]] = {}
    unknown: list[str] = []
    for key in keys:
        ending = next((ending for ending in endings if key.endswith(ending)), None)
        if ending is None:
            unknown.append(key)
        else:
            layer = key.removeprefix(PREFIX).removesuffix(ending)
            grouped.setdefault(layer, {})[endings[ending]] = key
    if unknown:
        raise refusal("it holds keys of unknown meaning", unknown)
    return grouped


def _endings(keys: list[str]) -> dict[str, str]:
    """The endings that this file uses, each with the part that it means; a file uses one pair."""
    used = [pair for pair in PAIRS if any(key.endswith(pair) for key in keys)]
    if len(used) > 1:
        raise AdapterUnsupported(
            f"it mixes {used[0][0]} and {used[1][0]}, so which one counts is not clear. {EXPECTED}."
        )
    down, up = used[0] if used else PAIRS[0]
    return {down: "down", up: "up", ALPHA: "alpha"}


def _plan_layer(layer: str, keys: dict[str, str], entries: Mapping[str, TensorEntry], shape: LayerShape) -> LayerPlan:
    for part, other in (("down", "up"), ("up", "down")):
        if part not in keys:
            present = keys.get(other) or keys["alpha"]
            raise AdapterMismatch(f"{layer} has {present[-60:]} but not its {part} half, so it cannot be applied.")
    down, up = entries[keys["down"]].shape, entries[keys["up"]].shape
    if len(down) != 2 or len(up) != 2 or down[0] != up[1] or down[0] == 0:
        raise AdapterMismatch(
            f"{layer}: A is {_words(down)} and B is {_words(up)}; expected rank x {shape.inputs} and "
            f"{shape.outputs} x rank."
        )
    if layer == "x_embedder" and up[0] == shape.outputs and down[1] > shape.inputs:
        raise refusal(
            f"it is a control adapter (it widens x_embedder from {shape.inputs} to {down[1]} inputs), which is not "
            "served",
            [keys["down"]],
        )
    if (down[1], up[0]) != (shape.inputs, shape.outputs):
        raise AdapterMismatch(
            f"{layer} is for a layer of {down[1]} inputs and {up[0]} outputs; in this base model it has "
            f"{shape.inputs} inputs and {shape.outputs} outputs."
        )
    alpha = keys.get("alpha")
    if alpha is not None and entries[alpha].shape not in ((), (1,)):
        raise AdapterMismatch(f"{alpha[:100]} is {_words(entries[alpha].shape)}; expected one number.")
    return LayerPlan(layer, keys["down"], keys["up"], alpha, down[0])


def _words(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "one number"


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))
