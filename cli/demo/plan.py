"""Which jobs the demo submits. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cli.adapter_words import TypedAdapter
from shared.job import Status

BASE_MODEL = "tiny-flux"
JOBS = 24
CLIENTS = 2
FIRST_SEED = 1000

BY_WEBHOOK = 6
CANCELLED = 17

CYCLE: tuple[tuple[str, ...], ...] = (
    ("outline",), ("night",), ("mosaic",), (), ("crayon",), ("star",), ("mocha",),
)  # fmt: skip
"""Adapters of consecutive jobs: in arrival order every job needs other adapters than the one before."""
PAIR = ("night", "star")
HALF_SCALE = ("outline", "night")
"""Drawn once more with half the strength."""
LAST: tuple[tuple[TypedAdapter, ...], ...] = (
    (TypedAdapter(HALF_SCALE[0], 0.5),),
    tuple(TypedAdapter(name, 1.0) for name in PAIR),
    (TypedAdapter(HALF_SCALE[1], 0.5),),
)
"""The jobs after the rounds, with the scene and the seed of the first round, to be compared with it."""

LONG = {"steps": 100, "width": 256, "height": 256, "num_images": 4}
"""So long that it is sure to be still running when it is cancelled after its first step."""

EXACT = frozenset({"night", "mosaic", "mocha"})
"""Built-in adapters whose alpha / rank is a power of two in every layer, so that folding it in moves no bit."""

SCENES = (
    "a large {red} {circle} on a blue background",
    "a {yellow} {moon} left on a purple background",
    "a {green} {triangle} on a white background",
)
"""One for each round: every adapter draws the same, but for the word that it brings."""
NEW_SHAPE, NEW_COLOUR = "star", "mocha"
"""Adapters that are also the words which they teach."""


@dataclass(frozen=True)
class Planned:
    """One job: its place in the plan, its adapters, and how it must end."""

    number: int
    prompt: str
    seed: int
    adapters: tuple[TypedAdapter, ...]
    webhook_url: str | None = None
    cancel: bool = False

    @property
    def ends(self) -> Status:
        """The state that it must end in."""
        return Status.CANCELLED if self.cancel else Status.SUCCEEDED

    @property
    def adapter_words(self) -> str:
        """Its adapters in one line."""
        return " + ".join(map(str, self.adapters)) or "none"

    @property
    def exact(self) -> bool:
        """Whether its image must equal a fresh pipeline's in every bit; its strengths are all powers of two."""
        return len(self.adapters) <= 1 and all(adapter.source in EXACT for adapter in self.adapters)

    @property
    def file_name(self) -> str:
        """Name of its image file."""
        words = "-".join(str(adapter).replace(":", "-") for adapter in self.adapters) or "none"
        return f"{self.number:02d}-{words}.png"

    def body(self) -> dict[str, Any]:
        """The request."""
        body: dict[str, Any] = {
            "prompt": self.prompt,
            "base_model": BASE_MODEL,
            "adapters": [{"source": adapter.source, "scale": adapter.scale} for adapter in self.adapters],
            "seed": self.seed,
            "metadata": {"demo_job": str(self.number)},
        }
        if self.webhook_url:
            body["webhook"] = {"url": self.webhook_url}
        return body | (LONG if self.cancel else {})


def make_plan(webhook_url: str | None) -> list[Planned]:
    """The jobs in the order in which they are submitted."""
    return [
        Planned(
            number=number,
            prompt=prompt_of(SCENES[round_of(number)], adapters),
            seed=FIRST_SEED + round_of(number),
            adapters=adapters,
            webhook_url=webhook_url if number == BY_WEBHOOK else None,
            cancel=number == CANCELLED,
        )
        for number, adapters in enumerate(map(adapters_of, range(JOBS)))
    ]


def round_of(number: int) -> int:
    """Which scene, counted from 0; those after the last round begin again."""
    return number // len(CYCLE) % len(SCENES)


def adapters_of(number: int) -> tuple[TypedAdapter, ...]:
    """The adapters of a job."""
    after = number - len(CYCLE) * len(SCENES)
    if after >= 0:
        return LAST[after]
    return tuple(TypedAdapter(name, 1.0) for name in CYCLE[number % len(CYCLE)])


def prompt_of(scene: str, adapters: Sequence[TypedAdapter]) -> str:
    """The scene, with the new word in the place of its colour or its shape where an adapter teaches one."""
    names = {adapter.source for adapter in adapters}
    colour, shape = re.findall(r"\{(\w+)\}", scene)
    new_colour = NEW_COLOUR if NEW_COLOUR in names else colour
    new_shape = NEW_SHAPE if NEW_SHAPE in names else shape
    return scene.replace(f"{{{colour}}}", new_colour).replace(f"{{{shape}}}", new_shape)


def swaps_in_order(groups: Sequence[frozenset[str]]) -> int:
    """How often the adapters change when jobs run in this order, beginning with none. Strengths do not count."""
    before = [frozenset[str](), *groups]
    return sum(earlier != later for earlier, later in zip(before, groups, strict=False))
