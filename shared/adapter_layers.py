"""One layer of a base model, as an adapter sees it: what goes in, what comes out. No torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerShape:
    """One layer of the base model that an adapter may change.

    ``kernel`` None: a linear layer (A: rank x inputs, B: outputs x rank); else a convolution (A: rank x inputs x kh x
    kw, B: outputs x rank x 1 x 1).
    """

    inputs: int
    outputs: int
    kernel: tuple[int, int] | None = None
