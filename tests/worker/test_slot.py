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
from worker.reference import Pixels
from worker.slot_layer import ADAPTER_NAME, SlotLayer, UsedPart

LAYER = "transformer_blocks.1.attn.to_out.0"
"""Ember changes it; glacier does not."""


@pytest.fixture(scope="module")
def expected(entry: BaseModelEntry, tiny: RandomFlux) -> dict[str, Pixels]:
    return {case: by_diffusers(case, entry, tiny.adapters) for case in ("ember", "moss", "none")}


def layer_of(engine: DiffusersEngine) -> SlotLayer:
    return engine._slot._layers[LAYER]


def flip_bit(layer: SlotLayer) -> None:
    layer.up.used.view(torch.int32)[5, 1] ^= 1


def exchange_rows(layer: SlotLayer) -> None:
    layer.up.used[[3, 4]] = layer.up.used[[4, 3]].clone()


def exchange_within(layer: SlotLayer) -> None:
    values = layer.down.used[0, [3, 4]].clone()
    layer.down.used[0, [4, 3]] = values


def leave_something(layer: SlotLayer) -> None:
    layer.down.leftover()[-1] = 1e-30


def switch_off(layer: SlotLayer) -> None:
    layer._lora._disable_adapters = True


def rescale(layer: SlotLayer) -> None:
    layer._lora.scaling[ADAPTER_NAME] = 0.5


def part_from_storage(layer: SlotLayer) -> None:
    layer.up.weight = torch.nn.Parameter(layer.up.weight.clone(), requires_grad=False)


def activate_nothing(layer: SlotLayer) -> None:
    layer._lora._active_adapter = []


def shorten(layer: SlotLayer) -> None:
    layer.up.used = layer.up.used.view(-1)[:128].view(64, 2)


def repair(layer: SlotLayer) -> None:
    # What no rewriting of weights could mend; a worker would be restarted.
    layer._lora._active_adapter = ADAPTER_NAME
    layer._lora.scaling[ADAPTER_NAME] = 1.0


DAMAGES = [
    flip_bit,
    exchange_rows,
    exchange_within,
    leave_something,
    switch_off,
    rescale,
    part_from_storage,
    activate_nothing,
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


def test_damage_to_an_empty_slot_is_found(
    engine: DiffusersEngine, tiny: RandomFlux, expected: dict[str, Pixels]
) -> None:
    apply(engine, [])
    layer_of(engine).down.leftover()[7] = 1.0
    with pytest.raises(SlotCorrupt):
        apply(engine, [])
    apply(engine, [])
    assert np.array_equal(shown(engine), expected["none"])


def test_a_write_that_does_not_arrive_is_found(
    engine: DiffusersEngine, tiny: RandomFlux, expected: dict[str, Pixels], monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(engine, files_of("ember", tiny.adapters))
    lost = layer_of(engine).up
    with monkeypatch.context() as patched:
        patched.setattr(UsedPart, "write", lambda part, matrix: None if part is lost else _write(part, matrix))
        with pytest.raises(SlotCorrupt, match=LAYER):
            apply(engine, files_of("moss", tiny.adapters))
        # Nor is it taken as empty while it cannot be emptied.
        with pytest.raises(SlotCorrupt, match=LAYER):
            apply(engine, [])
    apply(engine, files_of("moss", tiny.adapters))
    assert np.array_equal(shown(engine), expected["moss"])


_write = UsedPart.write


def test_a_failure_in_the_middle_of_a_write(
    engine: DiffusersEngine, tiny: RandomFlux, expected: dict[str, Pixels], monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(engine, files_of("ember", tiny.adapters))
    whole, clear = SlotLayer.write, SlotLayer.clear
    written: list[str] = []
    cleared: list[str] = []

    def fails_later(layer: SlotLayer, down: torch.Tensor, up: torch.Tensor) -> None:
        if len(written) == 5:
            raise RuntimeError("out of memory")
        written.append(layer.name)
        whole(layer, down, up)

    def noted(layer: SlotLayer) -> None:
        cleared.append(layer.name)
        clear(layer)

    with monkeypatch.context() as patched:
        patched.setattr(SlotLayer, "write", fails_later)
        with pytest.raises(RuntimeError, match="out of memory"):
            apply(engine, files_of("moss", tiny.adapters))
    with pytest.raises(SlotCorrupt, match="unknown state"):
        shown(engine)
    with monkeypatch.context() as patched:
        patched.setattr(SlotLayer, "clear", noted)
        apply(engine, files_of("ember", tiny.adapters))
    # All of it was zeroed first, then the layers that ember leaves alone once more.
    assert set(cleared) == set(engine._shapes)
    assert len(cleared) > len(engine._shapes)
    assert np.array_equal(shown(engine), expected["ember"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_sums_tell_one_changed_bit_and_exchanged_places(dtype: torch.dtype) -> None:
    matrix = torch.randn(6, 5, generator=torch.Generator().manual_seed(0)).to(dtype)
    same = sums_of([matrix])
    assert sums_of([matrix.clone()]) == same
    assert sums_of([matrix.t()]) != same
    assert sums_of([matrix[[1, 0, 2, 3, 4, 5]]]) != same
    bits = torch.int32 if dtype == torch.float32 else torch.int16
    for position in range(matrix.numel()):
        changed = matrix.clone()
        changed.view(-1).view(bits)[position] ^= 1
        assert sums_of([changed]) != same
    assert sums_of([]) == ()


def test_a_fingerprint_depends_on_name_rank_and_sums_but_not_on_order() -> None:
    one, two = {"a": (4, (1, 2, 3, 4))}, {"b": (2, (5, 6, 7, 8))}
    assert fingerprint_of(one | two) == fingerprint_of(two | one)
    others = [one, two, {}, {"b": one["a"]}, {"a": (5, (1, 2, 3, 4))}, {"a": (4, (1, 2, 3, 5))}]
    assert len({fingerprint_of(other) for other in others}) == len(others)
