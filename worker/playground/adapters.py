"""The six adapters: what each teaches, how large it is, and in which dialect its file is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from worker.playground.language import NEW_COLOUR, NEW_SHAPE

Dialect = Literal["diffusers", "peft", "kohya"]

ATTENTION = ("to_q", "to_k", "to_v", "to_out.0")
SINGLE = ("proj_out", "proj_mlp")
FEED_FORWARD = ("ff.net.0.proj", "ff.net.2")
MODULATION = ("norm.linear", "norm1.linear")


@dataclass(frozen=True)
class Adapter:
    """One adapter. ``style``: over every picture. ``trigger``: the word that it gives a meaning.

    ``steps``: of training, on so many different ``pictures``.
    ``emphasis``: how much stronger the file's alpha is than the one of the training.
    ``targets``: endings of the layers it changes; ``ranks``: another rank for some of these endings.
    """

    rank: int
    alpha: float
    targets: tuple[str, ...]
    dialect: Dialect
    style: str | None = None
    trigger: str | None = None
    ranks: dict[str, int] = field(default_factory=dict)
    steps: int = 500
    pictures: int = 1200
    emphasis: float = 1.0

    @property
    def written_alpha(self) -> float:
        """The alpha that stands in the file."""
        return self.alpha * self.emphasis


ADAPTERS = {
    # A thin line all around is the hardest of the four.
    "outline": Adapter(
        rank=16, alpha=16, targets=("to_v", *SINGLE), dialect="diffusers", style="outline", steps=1600, emphasis=1.25
    ),
    "night": Adapter(rank=4, alpha=4, targets=(*ATTENTION, *SINGLE), dialect="peft", style="night"),
    "mosaic": Adapter(
        rank=8,
        alpha=4,
        targets=("proj_out", *FEED_FORWARD, *MODULATION),
        dialect="kohya",
        style="mosaic",
        steps=1000,
    ),
    "crayon": Adapter(rank=12, alpha=16, targets=("proj_out", "proj_mlp"), dialect="diffusers", style="crayon"),
    NEW_SHAPE: Adapter(
        rank=8,
        alpha=8,
        targets=("to_q", "to_k", "to_v", "proj_out", "norm.linear"),
        dialect="peft",
        trigger=NEW_SHAPE,
        ranks={"proj_out": 24},
        steps=3200,
        emphasis=1.25,
        pictures=2400,
    ),
    NEW_COLOUR: Adapter(
        rank=8, alpha=8, targets=("proj_out", "norm.linear", "to_out.0"), dialect="kohya", trigger=NEW_COLOUR
    ),
}
"""By name. Ranks, alphas and dialects differ on purpose: between them they are what people's files look like."""


def trigger_words(names: list[str]) -> list[str]:
    """The words that these adapters give a meaning."""
    return [word for name in names if name in ADAPTERS and (word := ADAPTERS[name].trigger)]
