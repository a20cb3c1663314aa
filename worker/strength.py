"""Weights times a strength, with the same bits on every device: the product in float32, rounded once."""

from __future__ import annotations

import torch

Parts = list[torch.Tensor]


def multiply(source: Parts, scale: float, there: Parts) -> None:
    """Make each of ``there`` the one of ``source`` times ``scale``; both may be the same tensors."""
    if scale != 1.0 and there and there[0].device.type == "cpu":
        # On the CPU (torch 2.13) _foreach_mul_ rounds the strength itself to bfloat16 first, on a card it does not.
        for values, part in zip(source, there, strict=True):
            torch.mul(values, scale, out=part)
        return
    if source is not there:
        torch._foreach_copy_(there, source)
    if scale != 1.0:
        torch._foreach_mul_(there, scale)
