from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from shared.catalogue import BaseModelEntry
from shared.errors import SlotCorrupt
from tests.worker.cases import apply, by_diffusers, files_of, shown
from tests.worker.random_flux import RandomFlux
from worker.checksum import fingerprint_of, sums_of
from worker.engine import DiffusersEngine
from worker.layout import CHUNK_BYTES
from worker.packed import Packed
from worker.reference import Pixels
from worker.slot_layer import ADAPTER_NAME, SlotLayer
from worker.slot_storage import Arrangement, Storage

LAYER = "transformer_blocks.1.attn.to_out.0"
"""Ember changes it; glacier does not."""


@pytest.fixture(scope="module")
def expected(entry: BaseModelEntry, tiny: RandomFlux) -> dict[str, Pixels]:
    return {case: by_diffusers(case, entry, tiny.adapters) for case in ("ember", "moss", "none")}


def layer_of(engine: DiffusersEngine) -> SlotLayer:
    return engine._slot._layers[f"transformer.{LAYER}"]


def flip_bit(layer: SlotLayer) -> None:
    layer.up.weight.view(torch.int32)[5, 1] ^= 1


def exchange_rows(layer: SlotLayer) -> None:
    layer.up.weight[[3, 40]] = layer.up.weight[[40, 3]].clone()


def exchange_within(layer: SlotLayer) -> None:
    values = layer.down.weight[[0, 3], 3].clone()
    layer.down.weight[[3, 0], 3] = values


def switch_off(layer: SlotLayer) -> None:
    layer._lora._disable_adapters = True


def rescale(layer: SlotLayer) -> None:
    layer._lora.scaling[ADAPTER_NAME] = 0.5


def part_from_storage(layer: SlotLayer) -> None:
    layer.up.weight = layer.up.weight.clone()


def activate_nothing(layer: SlotLayer) -> None:
    layer._lora._active_adapter = []


def merge(layer: SlotLayer) -> None:
    layer._lora.merged_adapters.append(ADAPTER_NAME)


def shorten(layer: SlotLayer) -> None:
    layer.up.weight = layer.up.weight.flatten()[:128].view(64, 2)


def repair(layer: SlotLayer) -> None:
    # What no rewriting of weights could mend; a worker would be restarted.
    layer._lora._active_adapter = ADAPTER_NAME
    layer._lora.scaling[ADAPTER_NAME] = 1.0
    layer._lora.merged_adapters.clear()


DAMAGES = [
    flip_bit,
    exchange_rows,
    exchange_within,
    switch_off,
    rescale,
    part_from_storage,
    activate_nothing,
    merge,
    shorten,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_is_found_and_the_next_job_is_right(
    damage: Callable[[SlotLayer], None], engine: DiffusersEngine, tiny: RandomFlux, expected: dict[str, Pixels]
) -> None:
    apply(engine, files_of("ember", tiny.adapters))
    with torch.no_grad():
        damage(layer_of(engine))
    with pytest.raises(SlotCorrupt, match=LAYER):
        apply(engine, files_of("ember", tiny.adapters))
    with pytest.raises(SlotCorrupt, match="unknown state"):
        shown(engine)
    repair(layer_of(engine))
    apply(engine, files_of("ember", tiny.adapters))
    assert np.array_equal(shown(engine), expected["ember"])


def test_a_layer_that_takes_part_in_an_empty_slot_is_found(
    engine: DiffusersEngine, tiny: RandomFlux, expected: dict[str, Pixels]
) -> None:
    apply(engine, files_of("ember", tiny.adapters))
    apply(engine, [])
    layer_of(engine)._lora._disable_adapters = False
    with pytest.raises(SlotCorrupt, match=LAYER):
        apply(engine, [])
    apply(engine, [])
    assert np.array_equal(shown(engine), expected["none"])


def test_a_write_that_does_not_arrive_is_found(
    engine: DiffusersEngine, tiny: RandomFlux, expected: dict[str, Pixels], monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(engine, files_of("ember", tiny.adapters))
    whole = Storage.copy

    def loses_a_layer(storage: Storage, arrangement: Arrangement, adapter: Packed, scale: float) -> None:
        whole(storage, arrangement, adapter, scale)
        arrangement.views[f"transformer.{LAYER}"][1].zero_()

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "copy", loses_a_layer)
        with pytest.raises(SlotCorrupt, match=LAYER):
            apply(engine, files_of("moss", tiny.adapters))
        # Nor is it taken as empty while it cannot be emptied.
        patched.setattr(Storage, "zero", lambda storage: None)
        with pytest.raises(SlotCorrupt, match="emptied"):
            apply(engine, [])
    apply(engine, files_of("moss", tiny.adapters))
    assert np.array_equal(shown(engine), expected["moss"])


def test_a_failure_in_the_middle_of_a_write(
    engine: DiffusersEngine, tiny: RandomFlux, expected: dict[str, Pixels], monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(engine, files_of("ember", tiny.adapters))
    whole = Storage.copy
    found_zero: list[bool] = []

    def fails_after_a_part(storage: Storage, arrangement: Arrangement, adapter: Packed, scale: float) -> None:
        storage.flat[:1000] = adapter.flat[:1000]
        raise RuntimeError("out of memory")

    def noted(storage: Storage, arrangement: Arrangement, adapter: Packed, scale: float) -> None:
        found_zero.append(storage.is_zero())
        whole(storage, arrangement, adapter, scale)

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "copy", fails_after_a_part)
        with pytest.raises(RuntimeError, match="out of memory"):
            apply(engine, files_of("moss", tiny.adapters))
    with pytest.raises(SlotCorrupt, match="unknown state"):
        shown(engine)
    with monkeypatch.context() as patched:
        patched.setattr(Storage, "copy", noted)
        apply(engine, files_of("ember", tiny.adapters))
    assert found_zero == [True]
    assert np.array_equal(shown(engine), expected["ember"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_sums_tell_one_changed_bit_and_chunks_in_other_places(dtype: torch.dtype) -> None:
    flat = torch.randn(4096 // dtype.itemsize, generator=torch.Generator().manual_seed(0)).to(dtype)
    same = sums_of(flat)
    assert np.array_equal(sums_of(flat.clone()), same)
    assert not np.array_equal(sums_of(flat.roll(CHUNK_BYTES // dtype.itemsize)), same)
    bits = torch.int32 if dtype == torch.float32 else torch.int16
    for position in range(flat.numel()):
        changed = flat.clone()
        changed.view(bits)[position] ^= 1
        assert not np.array_equal(sums_of(changed), same)


def test_a_fingerprint_depends_on_names_ranks_and_sums() -> None:
    sums = np.arange(4)
    kinds = [((("a", 4),), sums), ((("b", 4),), sums), ((("a", 5),), sums), ((("a", 4),), sums[::-1]), ((), sums[:0])]
    assert len({fingerprint_of(*kind) for kind in kinds}) == len(kinds)
