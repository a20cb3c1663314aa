"""One layer of the slot: PEFT's own layer, whose halves multiply with memory of the slot."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from shared.adapter_layers import LayerShape
from worker.libraries import LoraLayer

ADAPTER_NAME = "slot"
_ACTIVE = (ADAPTER_NAME, [ADAPTER_NAME])


class Half(nn.Module):
    """A or B. ``weight``: the memory that multiplies; no parameter, because it is exchanged with its shape."""

    def __init__(self, like: nn.Module, rank_first: bool) -> None:
        super().__init__()
        self.weight = torch.empty(0, dtype=like.weight.dtype)  # type: ignore[arg-type]
        self.rank_first = rank_first

    def matrix(self) -> torch.Tensor:
        """The weight with outputs first."""
        return self.weight.t() if self.rank_first else self.weight


class LinearHalf(Half):
    """Half of a linear layer."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` (..., inputs) to (..., outputs)."""
        return functional.linear(x, self.matrix())


class ConvHalf(Half):
    """Half of a convolution: A has the base layer's kernel, stride and padding; B is a point."""

    def __init__(self, like: nn.Conv2d, rank_first: bool) -> None:
        super().__init__(like, rank_first)
        self._options: dict[str, Any] = {
            "stride": like.stride, "padding": like.padding, "dilation": like.dilation, "groups": like.groups
        }  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` (batch, inputs, height, width) to (batch, outputs, ...)."""
        weight = self.matrix()
        return functional.conv2d(x, weight[:, :, None, None] if self.rank_first else weight, **self._options)


class SlotLayer:
    """One layer of the base model with its adapter, as PEFT injected it. It computes what the base model alone does."""

    def __init__(self, name: str, lora: LoraLayer, shape: LayerShape, rank_first: bool) -> None:
        self.name = name
        self._lora = lora
        down, up = lora.lora_A[ADAPTER_NAME], lora.lora_B[ADAPTER_NAME]
        _check(name, down, up, shape)
        kind: type[Any] = LinearHalf if shape.kernel is None else ConvHalf
        self.down: Half = kind(down, False)
        self.up: Half = kind(up, rank_first)
        lora.lora_A[ADAPTER_NAME] = self.down
        lora.lora_B[ADAPTER_NAME] = self.up
        # Strengths are folded into the weights.
        lora.scaling[ADAPTER_NAME] = 1.0
        self.leave()

    def use(self, down: torch.Tensor, up: torch.Tensor) -> None:
        """Make the layer add ``up @ down``, whatever these hold."""
        self.down.weight = down
        self.up.weight = up
        # Not PEFT's set_adapter: that also switches gradients on, and recompiles compiled models.
        self._lora._disable_adapters = False

    def leave(self) -> None:
        """Take the adapter out of the computation, so the base model's own bits come out."""
        self._lora._disable_adapters = True

    def uses(self, pair: tuple[torch.Tensor, torch.Tensor] | None) -> bool:
        """Whether it multiplies with just these (None: nothing), and PEFT's switches are as they must be."""
        # Not by PEFT's properties: this is asked of every layer in every swap.
        lora = self._lora
        if lora.merged_adapters or lora.scaling[ADAPTER_NAME] != 1.0 or lora._active_adapter not in _ACTIVE:
            return False
        if pair is None:
            return bool(lora._disable_adapters)
        return not lora._disable_adapters and self.down.weight is pair[0] and self.up.weight is pair[1]


def _check(name: str, down: nn.Module, up: nn.Module, shape: LayerShape) -> None:
    down_shape, up_shape = down.get_parameter("weight").shape, up.get_parameter("weight").shape
    inputs, outputs, kernel = down_shape[1], up_shape[0], tuple(down_shape[2:]) or None
    if (inputs, outputs, kernel) != (shape.inputs, shape.outputs, shape.kernel):
        raise RuntimeError(f"{name} is {inputs} -> {outputs} with the kernel {kernel} in the model, not {shape}")
