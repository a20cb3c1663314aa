"""The compiled denoiser: the states that it is warmed for, and that nothing compiles after that.

Every tier, and the model without any adapter, is a graph of its own for each picture size; where guidance takes two
passes there is one for either number of passes. A picture of another size is drawn by the same layers uncompiled.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import product

import torch
from torch import nn

from shared.catalogue import BaseModelEntry

NO_GUIDANCE = 1.0


@dataclass(frozen=True)
class State:
    """What decides about the graph. ``rank``: a tier of the slot; None: no adapter takes part."""

    width: int
    height: int
    guidance_scale: float
    rank: int | None


def states(entry: BaseModelEntry, guided_twice: bool) -> list[State]:
    """Every state that the denoiser is warmed for; none where it is not compiled."""
    recipe = entry.named_recipe
    if not recipe.compiles:
        return []
    guidances = {entry.sampling.default_guidance_scale}
    if guided_twice:
        guidances = {NO_GUIDANCE, 2.0}
    ranks = [None, *entry.slot.rank_tiers]
    return [
        State(width, height, guidance, rank)
        for (width, height), guidance, rank in product(recipe.sizes, sorted(guidances), ranks)
    ]


def compile_in_place(denoiser: nn.Module, backend: str, graphs: int) -> None:
    """Let every call of ``denoiser`` run compiled, with room for this many graphs."""
    config = torch._dynamo.config
    # Past its limit dynamo runs uncompiled, which nobody would see. What is left over is for what should not happen.
    config.recompile_limit += graphs
    config.accumulated_recompile_limit += graphs
    denoiser.compile(backend=backend, dynamic=False)


def compilations() -> int:
    """How many graphs this process has compiled so far."""
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def uncompiled_unless(warmed: bool) -> AbstractContextManager[object]:
    """Within it, what is not warmed runs as it is instead of being compiled."""
    return nullcontext() if warmed else torch.compiler.set_stance("force_eager")


def sizes_of(known: Iterable[State]) -> frozenset[tuple[int, int]]:
    """Widths and heights of these states."""
    return frozenset((state.width, state.height) for state in known)
