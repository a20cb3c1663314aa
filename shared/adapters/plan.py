"""From the header of a file to the layers of a base model: where each layer's part lies, every key accounted for.

Pure, and the one place that decides: inspection shows this plan as its verdict, and the worker converts by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shared.adapter_layers import LayerShape
from shared.adapters.base import BaseLayers
from shared.adapters.header import Header, TensorEntry, shown
from shared.adapters.keys import FileKeys, Module, read_keys
from shared.adapters.kinds import named, refusal, refuse_foreign
from shared.adapters.lora_config import LoraConfig, read_lora_configs
from shared.adapters.names import Dialect
from shared.errors import AdapterMismatch, AdapterRankTooLarge, AdapterUnsupported
from shared.families.clip import name_in_files
from shared.families.family import Piece, component_of

FLOATS = frozenset(("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"))
"""Dtypes of weights. The two of eight bits are exact in any of the others."""

_WHOLE = frozenset(("I64", "I32", "I16", "I8", "U8"))
_CONTROLLED = "x_embedder"


@dataclass(frozen=True)
class Strength:
    """What B @ A is multiplied with: alpha / ``divisor``, or 1 where no alpha is given.

    ``key``: the file's tensor that holds alpha. ``alpha``: what the metadata says; both must agree.
    """

    divisor: float
    key: str | None = None
    alpha: float | None = None


@dataclass(frozen=True)
class LayerPlan:
    """Where one layer's part lies in the file.

    ``down``: key of A, which may have the kernel's dimensions or not. ``up``: key of B, of which only ``rows`` (all
    where None) are this layer's.
    """

    layer: str
    shape: LayerShape
    rank: int
    down: str
    up: str
    rows: tuple[tuple[int, int], ...] | None
    strength: Strength

    @property
    def keys(self) -> tuple[str, ...]:
        """The file's keys that it needs."""
        return (self.down, self.up, *([self.strength.key] if self.strength.key else []))


@dataclass(frozen=True)
class AdapterPlan:
    """All layers of one file, sorted by name; together their keys are all of the file's keys."""

    dialect: Dialect
    layers: tuple[LayerPlan, ...]
    renamed: bool
    """Whether anything but the names of diffusers' current form was found."""

    @property
    def rank(self) -> int:
        """Largest rank over the layers."""
        return max(layer.rank for layer in self.layers)


def plan_adapter(header: Header, base: BaseLayers, adapter_config: str | None = None) -> AdapterPlan:
    """What the file holds for this base model, or the ``AdapterError`` that refuses it.

    ``adapter_config``: text of the ``adapter_config.json`` that PEFT saves beside its weights, where there is one.
    """
    refuse_foreign(header.tensors)
    found = read_keys(header.tensors, base)
    _check_dtypes(header.tensors, found)
    configs = read_lora_configs(header.metadata, base.family, adapter_config if found.dialect is Dialect.PEFT else None)
    layers = [
        layer
        for module in found.modules
        for layer in _plan_module(module, header.tensors, base, configs, found.dialect)
    ]
    _check_unique(layers)
    plan = AdapterPlan(found.dialect, tuple(sorted(layers, key=lambda layer: layer.layer)), found.renamed)
    _check_ranks(plan, base.top_rank)
    return plan


def _check_dtypes(tensors: Mapping[str, TensorEntry], found: FileKeys) -> None:
    alphas = {module.alpha for module in found.modules}
    for name, entry in tensors.items():
        if entry.dtype not in FLOATS and not (name in alphas and entry.dtype in _WHOLE):
            raise AdapterUnsupported(
                f"{shown(name)} is stored as {entry.dtype}; only {', '.join(sorted(FLOATS))} are served.",
                reason="dtype",
            )


def _check_unique(layers: Iterable[LayerPlan]) -> None:
    seen: dict[str, LayerPlan] = {}
    for layer in layers:
        if (other := seen.setdefault(layer.layer, layer)) is not layer:
            raise AdapterUnsupported(
                f"{layer.layer} occurs twice, as {shown(other.up)} and as {shown(layer.up)}, so which one counts is "
                "not clear.",
                reason="ambiguous",
            )


def _check_ranks(plan: AdapterPlan, top_rank: int) -> None:
    for layer in plan.layers:
        if layer.rank > top_rank:
            raise AdapterRankTooLarge(
                f"{layer.layer} has rank {layer.rank}; the largest rank that is served here is {top_rank}."
            )


def _plan_module(
    module: Module,
    tensors: Mapping[str, TensorEntry],
    base: BaseLayers,
    configs: Mapping[str, LoraConfig],
    dialect: Dialect,
) -> list[LayerPlan]:
    down, up = _halves(module)
    rank = _check_shapes(module, tensors[down].shape, tensors[up].shape, base)
    if module.alpha is not None and tensors[module.alpha].shape not in ((), (1,)):
        raise AdapterMismatch(
            f"{shown(module.alpha)} is {_words(tensors[module.alpha].shape)}; expected one number.", reason="shape"
        )
    return [
        LayerPlan(
            layer=piece.layer,
            shape=base.layers[piece.layer],
            rank=rank,
            down=down,
            up=up,
            rows=piece.rows,
            strength=_strength(piece, module, rank, configs, dialect),
        )
        for piece in module.pieces
    ]


def _halves(module: Module) -> tuple[str, str]:
    if module.down is None or module.up is None:
        missing = "down" if module.down is None else "up"
        present = module.down or module.up or module.alpha or ""
        raise AdapterMismatch(
            f"{_title(module)} has {shown(present[-60:])} but not its {missing} half, so it cannot be applied.",
            reason="half",
        )
    return module.down, module.up


def _check_shapes(module: Module, down: tuple[int, ...], up: tuple[int, ...], base: BaseLayers) -> int:
    """The rank, once A and B are of a form that this layer takes."""
    shapes = [base.layers[piece.layer] for piece in module.pieces]
    inputs, kernel, outputs = shapes[0].inputs, shapes[0].kernel, sum(shape.outputs for shape in shapes)
    kernels = {kernel or (1, 1)} if len(down) == 4 else {()}
    points = kernel is None or kernel == (1, 1)
    if (
        len(down) not in ((2, 4) if points else (4,))
        or len(up) not in (2, 4)
        or down[2:] not in kernels
        or up[2:] not in ((), (1, 1))
        or down[0] != up[1]
        or down[0] == 0
    ):
        wanted = "" if kernel is None else f" x {kernel[0]} x {kernel[1]}"
        raise AdapterMismatch(
            f"{_title(module)}: A is {_words(down)} and B is {_words(up)}; expected rank x {inputs}{wanted} and "
            f"{outputs} x rank{' x 1 x 1' if wanted else ''}.",
            reason="shape",
        )
    if (down[1], up[0]) != (inputs, outputs):
        if module.pieces[0].layer == f"{base.family.denoiser}.{_CONTROLLED}" and up[0] == outputs and down[1] > inputs:
            raise refusal(
                "control",
                f"it is a control adapter (it widens {_CONTROLLED} from {inputs} to {down[1]} inputs), which is not "
                "served",
                [module.down or ""],
            )
        raise AdapterMismatch(
            f"{_title(module)} is for a layer of {down[1]} inputs and {up[0]} outputs; in this base model it has "
            f"{inputs} inputs and {outputs} outputs.",
            reason="shape",
        )
    return down[0]


def _strength(piece: Piece, module: Module, rank: int, configs: Mapping[str, LoraConfig], dialect: Dialect) -> Strength:
    component = component_of(piece.layer)
    config = configs.get(component)
    if config is None:
        if dialect is Dialect.PEFT and module.alpha is None:
            raise refusal(
                "strength_unknown",
                "PEFT keeps the strength of an adapter in another file (adapter_config.json), and this one does not "
                "say it; save it with the pipeline's save_lora_weights",
                [module.up or ""],
            )
        return Strength(float(rank), module.alpha)
    layer = piece.layer.removeprefix(f"{component}.")
    spelled = (layer,) if component.startswith(("transformer", "unet")) else (layer, name_in_files(layer))
    if (said := config.rank_of(*spelled)) != rank:
        raise AdapterMismatch(
            f"its metadata gives {piece.layer} the rank {said}, but the weights have rank {rank}.", reason="rank"
        )
    return Strength(math.sqrt(rank) if config.rank_stabilised else rank, module.alpha, config.alpha_of(*spelled))


def _title(module: Module) -> str:
    layers = [piece.layer for piece in module.pieces]
    return layers[0] if len(layers) == 1 else f"{layers[0]} and {len(layers) - 1} more ({named([module.name])})"


def _words(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "one number"
