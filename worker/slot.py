"""The adapter slot: one zero adapter over all supported layers, whose content is exchanged in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from shared.adapter_layers import LayerShape
from shared.errors import SlotCorrupt
from worker.checksum import Sums, fingerprint_of, sums_of
from worker.compact import CompactLayer
from worker.libraries import LoraConfig, LoraLinear, inject_adapter_in_model
from worker.slot_layer import ADAPTER_NAME, SlotLayer

Key = tuple[tuple[str, float], ...]
"""Which adapters (hash, strength) the slot holds, in canonical order."""

Sealed = dict[str, tuple[int, Sums]]
"""Rank and sums of each layer in use."""


@dataclass(frozen=True)
class Resident:
    """What the slot was last seen to hold."""

    key: Key
    sealed: Sealed


class Slot:
    """All slot layers of one model. Until a content has been read back and found right, the slot is not ``known``."""

    def __init__(self, model: nn.Module, shapes: Mapping[str, LayerShape], top_rank: int) -> None:
        self._layers = _inject(model, shapes, top_rank)
        self._resident: Resident | None = None
        self._empty()

    def require_known(self) -> None:
        """Raise ``SlotCorrupt`` unless what it holds was read back and found right."""
        if self._resident is None:
            raise SlotCorrupt("The adapter slot is in an unknown state; the job can be submitted again.")

    def holds(self, key: Key) -> bool:
        """Whether it was last seen to hold just these."""
        return self._resident is not None and self._resident.key == key

    def fill(self, key: Key, content: Mapping[str, CompactLayer]) -> str:
        """Make it hold ``content``, and nothing else; the fingerprint comes from what is then read back.

        Raises ``SlotCorrupt`` if that is not what was written. After any exception the slot is not known, and the
        next ``fill`` zeroes it and proves that it is empty before it writes.
        """
        expected = seal(content)
        if self._resident is None:
            self._empty()
        self._resident = None
        for layer in self._layers.values():
            part = content.get(layer.name)
            if part is None:
                layer.clear()
            else:
                layer.write(part.down, part.up)
        return self._settle(Resident(key, expected))

    def check(self) -> str:
        """The fingerprint of what it holds now; ``SlotCorrupt`` if that is no longer what was written."""
        self.require_known()
        resident, self._resident = self._resident, None
        return self._settle(resident or Resident((), {}))

    def _empty(self) -> None:
        self._resident = None
        for layer in self._layers.values():
            layer.clear()
        self._settle(Resident((), {}))

    def _settle(self, resident: Resident) -> str:
        found = self._read_back()
        if found != resident.sealed:
            wrong = sorted(name for name in self._layers if found.get(name) != resident.sealed.get(name))
            raise SlotCorrupt(
                f"The adapter slot does not hold what was written ({len(wrong)} layers differ, first {wrong[0]}); "
                "the job can be submitted again."
            )
        self._resident = resident
        return fingerprint_of(found)

    def _read_back(self) -> Sealed:
        """Rank and sums of every layer that is in use, and a mark for every layer that is not as it should be."""
        layers = list(self._layers.values())
        dirty = torch.stack([_leftover(layer) for layer in layers]).tolist()
        used = [layer for layer in layers if layer.rank]
        sums = sums_of([half.used for layer in used for half in (layer.down, layer.up)])
        found = {layer.name: (layer.rank, sums[4 * i : 4 * i + 4]) for i, layer in enumerate(used)}
        for layer, leftover in zip(layers, dirty, strict=True):
            if leftover or not layer.sound:
                found[layer.name] = (-1, (leftover,))
        return found


def seal(content: Mapping[str, CompactLayer]) -> Sealed:
    """Rank and sums that the slot must show once it holds ``content``; computed from the content alone."""
    sums = sums_of([half for layer in content.values() for half in (layer.down, layer.up)])
    return {name: (layer.rank, sums[4 * i : 4 * i + 4]) for i, (name, layer) in enumerate(content.items())}


def _leftover(layer: SlotLayer) -> torch.Tensor:
    return torch.count_nonzero(layer.down.leftover()) + torch.count_nonzero(layer.up.leftover())


def _inject(model: nn.Module, shapes: Mapping[str, LayerShape], top_rank: int) -> dict[str, SlotLayer]:
    config = LoraConfig(r=top_rank, lora_alpha=top_rank, target_modules=list(shapes), init_lora_weights=True)
    inject_adapter_in_model(config, model, adapter_name=ADAPTER_NAME)
    model.requires_grad_(False)
    loras = {name: layer for name, layer in model.named_modules() if isinstance(layer, LoraLinear)}
    if set(loras) != set(shapes):
        raise RuntimeError(f"PEFT injected {len(loras)} layers where {len(shapes)} were asked for")
    return {name: SlotLayer(name, loras[name]) for name in sorted(loras)}
