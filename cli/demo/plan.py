"""Which jobs the demo submits. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cli.adapter_words import TypedAdapter
from shared.job import Status

BASE_MODEL = "tiny-flux"
JOBS = 24
CLIENTS = 2
FIRST_SEED = 1000

HALF_SCALE = (5, 11)
"""Jobs that draw with half the strength."""
TWO_ADAPTERS = 17
BY_WEBHOOK = 6
CANCELLED = 13

CYCLE: tuple[tuple[str, ...], ...] = (("ember",), ("moss",), ("glacier",), ("violet",), ())
"""Adapters of consecutive jobs: in arrival order nearly every job needs other adapters than the one before."""
PAIR = ("glacier", "violet")

LONG = {"steps": 100, "width": 256, "height": 256, "num_images": 4}
"""So long that it is sure to be still running when it is cancelled after its first step."""

EXACT = frozenset({"ember", "moss"})
"""Built-in adapters whose alpha / rank is a power of two in every layer, so that folding it in moves no bit."""

PLACES = (
    "a harbour",
    "a forest path",
    "a market square",
    "a mountain hut",
    "a greenhouse",
    "a railway yard",
    "a tidal pool",
    "an attic",
)
LIGHTS = ("at dawn", "in heavy rain", "under neon lights")


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
            prompt=f"{PLACES[number % len(PLACES)]} {LIGHTS[number // len(PLACES) % len(LIGHTS)]}",
            seed=FIRST_SEED + number,
            adapters=adapters_of(number),
            webhook_url=webhook_url if number == BY_WEBHOOK else None,
            cancel=number == CANCELLED,
        )
        for number in range(JOBS)
    ]


def adapters_of(number: int) -> tuple[TypedAdapter, ...]:
    """The adapters of a job."""
    if number == TWO_ADAPTERS:
        return tuple(TypedAdapter(name, 0.5) for name in PAIR)
    scale = 0.5 if number in HALF_SCALE else 1.0
    return tuple(TypedAdapter(name, scale) for name in CYCLE[number % len(CYCLE)])


def swaps_in_order(groups: Sequence[frozenset[str]]) -> int:
    """How often the adapters change when jobs run in this order, beginning with none. Strengths do not count."""
    before = [frozenset[str](), *groups]
    return sum(earlier != later for earlier, later in zip(before, groups, strict=False))
