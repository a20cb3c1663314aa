"""The machine that a base model is to run on, as far as it decides about recipes. A pure value; read elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

GIB = 1 << 30


@dataclass(frozen=True)
class Machine:
    """One card, or one computer without.

    ``name``: what people call it. ``capability``: CUDA compute capability, None without a card. ``memory_bytes``: the
    card's memory, else the computer's. ``free_bytes``: what of it is not taken now.
    """

    device: Literal["cpu", "cuda"]
    name: str
    capability: tuple[int, int] | None
    memory_bytes: int
    free_bytes: int

    def __post_init__(self) -> None:
        if (self.device == "cuda") != (self.capability is not None):
            raise ValueError("a card has a compute capability, and nothing else has one")

    @property
    def title(self) -> str:
        """Its name, with the compute capability of a card."""
        if self.capability is None:
            return self.name
        return f"{self.name} (compute capability {self.capability[0]}.{self.capability[1]})"


def in_gib(count_bytes: int) -> str:
    """Bytes for people: ``23.5 GiB``, and what is next to nothing in MiB."""
    if count_bytes < GIB // 10:
        return f"{count_bytes / (1 << 20):.1f} MiB"
    return f"{count_bytes / GIB:.1f} GiB"
