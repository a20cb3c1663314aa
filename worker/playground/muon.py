"""Two optimizers as one: Muon for the matrices within a network, AdamW for everything else.

Muon (Jordan et al. 2024) needs half the steps of AdamW here, or less. ``torch.optim.Muon`` takes matrices only, so a
convolution's kernel (outputs, inputs, 3, 3) is shown to it as a matrix (outputs, 9 * inputs) of the same memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class Optimizer:
    """Trains ``model``; ``inner(name, parameter)`` says which parameters Muon takes."""

    def __init__(
        self, model: nn.Module, inner: Callable[[str, nn.Parameter], bool], muon_rate: float, adam_rate: float
    ) -> None:
        named = [(name, part) for name, part in model.named_parameters() if part.requires_grad]
        self._inner = [part for name, part in named if inner(name, part)]
        chosen = {id(part) for part in self._inner}
        self._matrices = [nn.Parameter(_matrix(part.data)) for part in self._inner]
        others = [part for _, part in named if id(part) not in chosen]
        self._muon = torch.optim.Muon(self._matrices, lr=muon_rate, momentum=0.95, weight_decay=0.0)
        self._adam = torch.optim.AdamW(others, lr=adam_rate, betas=(0.9, 0.99), weight_decay=0.0)
        self._rates = (muon_rate, adam_rate)
        self._model = model

    def step(self, loss: Tensor, factor: float) -> None:
        """One step down ``loss``, with the learning rates times ``factor``."""
        self._model.zero_grad(set_to_none=True)
        loss.backward()
        for part, matrix in zip(self._inner, self._matrices, strict=True):
            matrix.grad = None if part.grad is None else _matrix(part.grad)
        for optimizer, rate in zip((self._muon, self._adam), self._rates, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
            optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs."""
        return {"muon": self._muon.state_dict(), "adam": self._adam.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self._muon.load_state_dict(state["muon"])
        self._adam.load_state_dict(state["adam"])


def falling(step: int, steps: int, warm_up: int = 50) -> float:
    """The learning rate's factor: up in ``warm_up`` steps, then down to nothing along half a cosine."""
    return min(1.0, (step + 1) / warm_up) * 0.5 * (1 + math.cos(math.pi * step / steps))


def _matrix(tensor: Tensor) -> Tensor:
    # In the order of channels_last memory, so that it is a view and not a copy.
    return tensor if tensor.dim() == 2 else tensor.permute(0, 2, 3, 1).flatten(1)
