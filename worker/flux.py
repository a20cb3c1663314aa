"""The FLUX family: which of its layers an adapter may change."""

from __future__ import annotations

from torch import nn

from shared.adapter_layers import LayerShape


def supported_layers(transformer: nn.Module) -> dict[str, LayerShape]:
    """Every linear layer of a FLUX transformer, by name, sorted.

    That is all that published FLUX adapters change: attention, feed-forward, modulation (``norm*.linear``), the
    embedders, ``norm_out.linear`` and ``proj_out``.
    """
    linears = {name: layer for name, layer in transformer.named_modules() if isinstance(layer, nn.Linear)}
    return {name: LayerShape(layer.in_features, layer.out_features) for name, layer in sorted(linears.items())}
