"""What a family of base models says about itself; each has a file of its own beside this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shared.adapter_layers import LayerShape

Config = Mapping[str, Any]
"""A component's ``config.json``, as diffusers or transformers write it."""

Layers = dict[str, LayerShape]
"""Layers by name. With the component's name before it (``unet.mid_block...``) wherever several components meet."""


@dataclass(frozen=True)
class Piece:
    """A layer's share of a layer of the original code, which may have fused several.

    ``rows``: ranges of output rows that are this layer's, in its own order; None: all rows, as they stand.
    """

    layer: str
    rows: tuple[tuple[int, int], ...] | None = None


OriginalNames = dict[str, tuple[Piece, ...]]
"""Layers of the original code by their names there; together the pieces of one are all rows of its B."""


@dataclass(frozen=True)
class Family:
    """One family of base models.

    ``denoiser``: the component that denoises. ``layers_of``: for each component that an adapter may change, the
    denoiser first, its layers from its config. ``original_names``: from the denoiser's layers (names without the
    component) to what the original code calls them. ``processor_names``: the same for attention processors that are
    published beside the original code (XLabs).
    """

    name: str
    denoiser: str
    layers_of: Mapping[str, Callable[[Config], Layers]]
    original_names: Callable[[Layers], OriginalNames]
    processor_names: Callable[[Layers], OriginalNames] | None = None

    @property
    def components(self) -> tuple[str, ...]:
        """Components that an adapter may change, the denoiser first."""
        return tuple(self.layers_of)

    @property
    def text_encoders(self) -> tuple[str, ...]:
        """All of them but the denoiser."""
        return self.components[1:]

    def layers(self, configs: Mapping[str, Config]) -> Layers:
        """All layers that an adapter may change, named with their component, sorted; ``configs`` by component.

        A component without a config has no layers. Raises ``ValueError`` for a config that is not of this family, in
        one sentence.
        """
        found: Layers = {}
        for component, layers_of in self.layers_of.items():
            if component in configs:
                found |= {f"{component}.{name}": shape for name, shape in layers_of(configs[component]).items()}
        return dict(sorted(found.items()))


def component_of(layer: str) -> str:
    """The component of a layer that is named with it."""
    return layer.partition(".")[0]


def number(config: Config, key: str) -> int:
    """A whole number above zero from a config; ``ValueError`` where there is none."""
    value = config.get(key)
    if type(value) is not int or value < 1:
        raise ValueError(f"the config gives {key} as {value!r}, not as a whole number above zero")
    return value
