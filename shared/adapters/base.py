"""What of a base model decides about adapters: its family, the layers that its slot covers, its largest rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from shared.adapter_layers import LayerShape
from shared.adapters.names import NameTable, name_table
from shared.families.family import Family, component_of


@dataclass(frozen=True)
class BaseLayers:
    """``layers``: all that an adapter may change here, named with their component. ``top_rank``: largest rank served.

    Text encoders that the slot does not cover have no layers here.
    """

    family: Family
    layers: Mapping[str, LayerShape]
    top_rank: int

    @cached_property
    def names(self) -> NameTable:
        """What files call these layers, in every dialect."""
        return name_table(self.family, self.layers)

    @cached_property
    def components(self) -> frozenset[str]:
        """Components that have layers here."""
        return frozenset(map(component_of, self.layers))
