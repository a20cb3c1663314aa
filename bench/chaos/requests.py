"""What the chaos run asks for: short jobs, many of them alike, so that equal requests can be compared. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Any

PROMPTS = ("a red circle on a blue background", "a green square on a white background")
SEEDS = (7, 8)
STEPS = (1, 2)
LONG_STEPS = 24
"""So long that a fault finds it half drawn."""
LONG_SHARE = 0.12
CANCEL_SHARE = 0.12
EXPIRE_SHARE = 0.03
EXPIRE_S = 2.0
SIDE_PX = 128


@dataclass(frozen=True)
class Asked:
    """One request; ``cancel_after_s``: how long after its acceptance its caller changes his mind, if he does."""

    number: int
    body: Mapping[str, Any]
    cancel_after_s: float | None = None

    @property
    def idempotency_key(self) -> str:
        """Sent with every try of this request."""
        return f"chaos-{self.number}"

    @property
    def adapters(self) -> tuple[tuple[str, float], ...]:
        """Sources and strengths, as asked for."""
        return tuple((one["source"], one["scale"]) for one in self.body["adapters"])

    @property
    def picture(self) -> tuple[Any, ...]:
        """The same for requests that must give the same pixels, whatever ran before; both base models are one."""
        return self.body["prompt"], self.adapters, self.body["seed"], self.body["steps"]


AdapterSet = tuple[tuple[str, float], ...]
"""Sources and strengths."""


def adapter_sets(ranks: Mapping[str, int], top_rank: int) -> list[AdapterSet]:
    """What a job may ask for of these adapters: none, each alone, and each pair whose ranks fit, at half strength."""
    alone: list[AdapterSet] = [((name, 1.0),) for name in sorted(ranks)]
    pairs: list[AdapterSet] = [
        ((one, 0.5), (other, 0.5))
        for one, other in combinations(sorted(ranks), 2)
        if ranks[one] + ranks[other] <= top_rank
    ]
    return [(), *alone, *pairs]


def draw(random: Random, number: int, served: Mapping[str, Sequence[AdapterSet]], webhook_url: str) -> Asked:
    """The request of this number. ``served``: by base model; the first gets two thirds of the jobs."""
    first, *others = served
    base_model = first if random.random() < 2 / 3 else random.choice(others)
    adapters = random.choice(served[base_model])
    body: dict[str, Any] = {
        "prompt": random.choice(PROMPTS),
        "base_model": base_model,
        "adapters": [{"source": source, "scale": scale} for source, scale in adapters],
        "width": SIDE_PX,
        "height": SIDE_PX,
        "steps": LONG_STEPS if random.random() < LONG_SHARE else random.choice(STEPS),
        "seed": random.choice(SEEDS),
        "priority": random.choice(("normal", "normal", "normal", "high", "low")),
        "webhook": {"url": webhook_url},
        "metadata": {"number": str(number)},
    }
    if random.random() < EXPIRE_SHARE:
        body["deadline_seconds"] = EXPIRE_S
    return Asked(number, body, random.uniform(0.0, 3.0) if random.random() < CANCEL_SHARE else None)
