"""One layer of the slot: storage for the top rank, of which only the rank in use takes part in the product.

Padding with zeros would be simpler, but it moves the last bits: a matrix product of another width sums in another
order (seen on the CPU in float32 with MKL). The used part lies contiguous at the start of the storage, so the product
is the very one that a fresh pipeline of that rank computes. A compiled recipe needs fixed shapes instead; it replaces
``UsedPart``, and nothing else here.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from worker.libraries import LoraLinear

ADAPTER_NAME = "slot"


class UsedPart(nn.Module):
    """Half of a slot layer. ``weight``: storage at the top rank. ``used``: the view of it that multiplies."""

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.weight = weight
        self.used = self._view((0, 0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` (..., columns) times the used part (rows x columns), transposed."""
        return functional.linear(x, self.used)

    def write(self, matrix: torch.Tensor | None) -> None:
        """Copy ``matrix`` in and zero what is left of the storage; None zeroes all of it."""
        count = 0 if matrix is None else matrix.numel()
        view = self._view((0, 0) if matrix is None else tuple(matrix.shape))
        with torch.no_grad():
            if matrix is not None:
                view.copy_(matrix)
            self.weight.view(-1)[count:].zero_()
        self.used = view

    @property
    def attached(self) -> bool:
        """Whether what multiplies is the storage's own start (moving the model would part them)."""
        used, whole = self.used.untyped_storage(), self.weight.untyped_storage()
        return used.data_ptr() == whole.data_ptr() and self.used.storage_offset() == self.weight.storage_offset()

    def leftover(self) -> torch.Tensor:
        """The storage that is not in use, flat."""
        return self.weight.detach().view(-1)[self.used.numel() :]

    def _view(self, shape: tuple[int, ...]) -> torch.Tensor:
        count = torch.Size(shape).numel()
        return self.weight.detach().view(-1)[:count].view(shape)


class SlotLayer:
    """One linear layer of the base model with its zero adapter, as PEFT injected it."""

    def __init__(self, name: str, lora: LoraLinear) -> None:
        self.name = name
        self._lora = lora
        self.down = UsedPart(lora.lora_A[ADAPTER_NAME].weight)
        self.up = UsedPart(lora.lora_B[ADAPTER_NAME].weight)
        lora.lora_A[ADAPTER_NAME] = self.down
        lora.lora_B[ADAPTER_NAME] = self.up
        lora.scaling[ADAPTER_NAME] = 1.0
        self.clear()

    @property
    def rank(self) -> int:
        """Rank in use; 0 when the layer computes what the base model alone does."""
        return self.down.used.shape[0]

    @property
    def sound(self) -> bool:
        """Whether both halves have one rank and lie in their storage, and PEFT's switches are as the content wants."""
        lora = self._lora
        conditions = (
            self.up.used.shape[1] == self.rank,
            self.down.attached,
            self.up.attached,
            lora.disable_adapters == (self.rank == 0),
            not lora.merged,
            lora.active_adapters == [ADAPTER_NAME],
            # Strengths are folded into the weights.
            lora.scaling[ADAPTER_NAME] == 1.0,
        )
        return all(conditions)

    def write(self, down: torch.Tensor, up: torch.Tensor) -> None:
        """Make the layer add ``up @ down``: outputs x rank, rank x inputs."""
        self.down.write(down)
        self.up.write(up)
        # Not PEFT's set_adapter: that also switches gradients on, and recompiles compiled models.
        self._lora._disable_adapters = False

    def clear(self) -> None:
        """Zero the layer and take it out of the computation, so the base model's own bits come out."""
        self._lora._disable_adapters = True
        self.down.write(None)
        self.up.write(None)
