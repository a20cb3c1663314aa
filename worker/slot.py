"""The adapter slot: one adapter over all supported layers, whose content is exchanged in place and then proven."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from shared.errors import SlotCorrupt
from shared.families.family import component_of
from worker.checksum import NOTHING, Sums
from worker.layout import Layouts, Ranks, halves
from worker.libraries import LoraConfig, LoraLayer, hushed, inject_adapter_in_model
from worker.packed import Packed
from worker.slot_layer import ADAPTER_NAME, SlotLayer
from worker.slot_storage import Arrangement, Storage

Key = tuple[tuple[str, float], ...]
"""Which adapters (hash, strength) the slot holds, in canonical order."""

_WARM_UP: Key = (("warm-up", 0.0),)


@dataclass(frozen=True)
class Resident:
    """What the slot was last seen to hold.

    ``sums``: of all chunks that take part. ``fingerprint``: of the adapter's own layers alone, with what these sums
    say of them, so that it does not depend on the tier.
    """

    key: Key
    arrangement: Arrangement
    sums: Sums
    fingerprint: str


class Slot:
    """All slot layers of one pipeline. Until a content has been read back and found right, it is not ``known``."""

    def __init__(
        self,
        components: Mapping[str, nn.Module],
        layouts: Layouts,
        tiers: tuple[int, ...],
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> None:
        """``components``: the modules whose layers ``layouts`` names. ``tiers``: rank tiers, ascending."""
        self.storage = Storage(layouts, tiers, dtype, torch.device(device))
        self._layouts = layouts
        self._layers = {
            layer.name: layer for name, module in components.items() for layer in _inject(name, module, layouts)
        }
        self._resident: Resident | None = None
        self._switched: Arrangement | None = None
        self._empty()

    def require_known(self) -> Resident:
        """What it was last seen to hold; ``SlotCorrupt`` unless that was found right."""
        if self._resident is None:
            raise SlotCorrupt("The adapter slot is in an unknown state; the job can be submitted again.")
        return self._resident

    def holds(self, key: Key) -> bool:
        """Whether it was last seen to hold just these."""
        return self._resident is not None and self._resident.key == key

    def fill(self, key: Key, adapter: Packed, scale: float) -> str:
        """Make it hold the adapter at this strength, and nothing else; the fingerprint of what is read back.

        Raises ``SlotCorrupt`` if that is not what was to be written. After any exception the slot is not known, and
        the next use zeroes it and proves that it is empty before anything is written.
        """
        own = adapter.expected(scale)
        arrangement = self._prepared(adapter.ranks)
        self.storage.copy(arrangement, adapter, scale)
        self._switch(arrangement)
        sums = self._zeros(arrangement)
        sums[self.storage.fit(arrangement, adapter).chunks] = own.sums
        return self._settle(Resident(key, arrangement, sums, own.fingerprint))

    def clear(self) -> str:
        """Take every layer out of the computation, so that nothing that the memory holds takes part."""
        return self._hold_zeros(self._prepared(()))

    def rehearse(self, rank: int) -> None:
        """Hold zeros at the tier of this rank in every compiled component, for its warm-up."""
        names = [name for name in self._layers if component_of(name) in self._layouts.rank_first]
        arrangement = self._prepared(tuple((name, rank) for name in names))
        self.storage.zero()
        self._hold_zeros(arrangement, _WARM_UP)

    def check(self) -> str:
        """The fingerprint of what it holds now; ``SlotCorrupt`` if that is no longer what was written."""
        resident = self.require_known()
        self._resident = None
        return self._settle(resident)

    def _prepared(self, ranks: Ranks) -> Arrangement:
        """Where the layers will lie; from here on the slot is not known."""
        if self._resident is None:
            self._empty()
        self._resident = None
        return self.storage.arrange(ranks)

    def _hold_zeros(self, arrangement: Arrangement, key: Key = ()) -> str:
        self._switch(arrangement)
        return self._settle(Resident(key, arrangement, self._zeros(arrangement), NOTHING))

    def _empty(self) -> None:
        self._resident, self._switched = None, None
        self.storage.zero()
        if not self.storage.is_zero():
            raise SlotCorrupt("The adapter slot could not be emptied; the job can be submitted again.")
        self._hold_zeros(self.storage.arrange(()))

    def _switch(self, arrangement: Arrangement) -> None:
        if arrangement is self._switched:
            return
        self._switched = arrangement
        for name, layer in self._layers.items():
            pair = arrangement.views.get(name)
            if pair is None:
                layer.leave()
            else:
                layer.use(*pair)

    def _zeros(self, arrangement: Arrangement) -> Sums:
        return np.zeros(arrangement.layout.size // self._layouts.chunk, np.int64)

    def _settle(self, resident: Resident) -> str:
        found = self.storage.sums(resident.arrangement)
        wrong = sorted(self._differing(resident, found))
        if wrong:
            raise SlotCorrupt(
                f"The adapter slot does not hold what was written ({len(wrong)} layers differ, first {wrong[0]}); "
                "the job can be submitted again."
            )
        self._resident = resident
        # What was found is what was expected, so this is its fingerprint too.
        return resident.fingerprint

    def _differing(self, resident: Resident, found: Sums) -> set[str]:
        views = resident.arrangement.views
        wrong = {name for name, layer in self._layers.items() if not layer.uses(views.get(name))}
        if not np.array_equal(found, resident.sums):
            differing = found != resident.sums
            wrong |= {
                name
                for name, half in halves(resident.arrangement.layout)
                if differing[self._layouts.chunks_of(half)].any()
            }
        return wrong


def _inject(component: str, module: nn.Module, layouts: Layouts) -> list[SlotLayer]:
    """PEFT's layers in this component, by the names of ``layouts``, sorted."""
    before = f"{component}."
    shapes = {name.removeprefix(before): shape for name, shape in layouts.layers.items() if name.startswith(before)}
    # Of rank 1, because the halves get their memory from the slot.
    config = LoraConfig(r=1, lora_alpha=1, target_modules=list(shapes), init_lora_weights=True)
    with hushed():
        # PEFT warns that an adapter cannot be merged into quantised weights, which nobody does here.
        inject_adapter_in_model(config, module, adapter_name=ADAPTER_NAME)
    module.requires_grad_(False)
    loras = {name: layer for name, layer in module.named_modules() if isinstance(layer, LoraLayer)}
    if set(loras) != set(shapes):
        raise RuntimeError(f"PEFT injected {len(loras)} layers where {len(shapes)} were asked for")
    rank_first = component in layouts.rank_first
    return [SlotLayer(before + name, loras[name], shapes[name], rank_first) for name in sorted(loras)]
