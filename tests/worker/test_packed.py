"""Packed adapters: what lies where, and several side by side."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from shared.adapter_layers import LayerShape
from shared.errors import AdapterNotFinite
from worker.checksum import sums_of
from worker.compact import CompactAdapter, CompactLayer
from worker.compose import compose
from worker.layout import CHUNK_BYTES, Layouts, halves
from worker.packed import Packed, pack, view_of
from worker.slot_storage import Storage
from worker.strength import multiply

SHAPES = {
    "text_encoder.q": LayerShape(6, 10),
    "unet.conv": LayerShape(4, 12, (3, 3)),
    "unet.linear": LayerShape(24, 8),
    "unet.point": LayerShape(5, 7, (1, 1)),
}
KINDS = [frozenset[str](), frozenset({"unet"})]
TIERS = (4, 16)


def adapter(ranks: dict[str, int], seed: int, layouts: Layouts, dtype: torch.dtype = torch.float32) -> Packed:
    generator = torch.Generator().manual_seed(seed)
    layers = {}
    for name, rank in ranks.items():
        shape = SHAPES[name]
        kernel, point = shape.kernel or (), (1, 1) if shape.kernel else ()
        down = torch.randn(rank, shape.inputs, *kernel, generator=generator).to(dtype)
        layers[name] = CompactLayer(down, torch.randn(shape.outputs, rank, *point, generator=generator).to(dtype))
    return pack(CompactAdapter(str(seed), layers), layouts, dtype)


def products(packed: Packed) -> dict[str, torch.Tensor]:
    """What each layer adds, as a matrix."""
    found = {}
    for name, (down, up) in packed.views.items():
        matrix = up.t() if packed.layout.places[name].rank_first else up.flatten(1)
        found[name] = matrix.double() @ down.flatten(1).double()
    return found


def used_chunks(packed: Packed, layouts: Layouts) -> list[range]:
    return [range(*layouts.chunks_of(half).indices(1 << 40)) for _, half in halves(packed.layout)]


@pytest.mark.parametrize("rank_first", KINDS, ids=["as in PEFT", "rank first"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_half_has_chunks_of_its_own_and_zeros_behind_it(rank_first: frozenset[str], dtype: torch.dtype) -> None:
    layouts = Layouts(SHAPES, dtype.itemsize, rank_first)
    packed = adapter({"text_encoder.q": 3, "unet.conv": 5, "unet.linear": 1, "unet.point": 2}, 0, layouts, dtype)
    chunks = [chunk for own in used_chunks(packed, layouts) for chunk in own]
    assert chunks == list(range(packed.flat.nbytes // CHUNK_BYTES))
    values = sum(int(torch.count_nonzero(view_of(packed.flat, half))) for _, half in halves(packed.layout))
    assert values == int(torch.count_nonzero(packed.flat))


@pytest.mark.parametrize("rank_first", KINDS, ids=["as in PEFT", "rank first"])
def test_side_by_side_is_the_weighted_sum(rank_first: frozenset[str]) -> None:
    layouts = Layouts(SHAPES, 4, rank_first)
    one = adapter({"unet.conv": 3, "unet.linear": 2}, 1, layouts)
    two = adapter({"text_encoder.q": 4, "unet.conv": 1, "unet.point": 6}, 2, layouts)
    both, scale = compose([(one, 0.5), (two, -2.0)], layouts)
    assert scale == 1.0
    assert both.ranks == (("text_encoder.q", 4), ("unet.conv", 4), ("unet.linear", 2), ("unet.point", 6))
    parts = [(products(one), 0.5), (products(two), -2.0)]
    for name, found in products(both).items():
        expected = sum(part[name] * weight for part, weight in parts if name in part)
        assert torch.allclose(found, torch.as_tensor(expected), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rank_first", KINDS, ids=["as in PEFT", "rank first"])
def test_the_storage_holds_what_is_copied_and_zeros_whatever_was_there(
    rank_first: frozenset[str], dtype: torch.dtype
) -> None:
    layouts = Layouts(SHAPES, dtype.itemsize, rank_first)
    storage = Storage(layouts, TIERS, dtype, torch.device("cpu"))
    generator = np.random.default_rng(0)
    for seed in range(60):
        names = generator.choice(list(SHAPES), size=generator.integers(1, 5), replace=False)
        ranks = {str(name): int(generator.integers(1, 17)) for name in sorted(names)}
        packed, scale = adapter(ranks, seed, layouts, dtype), float(generator.choice([1.0, 0.3, -2.0]))
        arrangement = storage.arrange(packed.ranks)
        storage.copy(arrangement, packed, scale)
        expected = torch.zeros_like(storage.flat[: arrangement.layout.size])
        for name, (down, up) in packed.views.items():
            place = arrangement.layout.places[name]
            view_of(expected, place.down)[: ranks[name]] = down
            up_there = view_of(expected, place.up)
            (up_there[: ranks[name]] if place.rank_first else up_there[:, : ranks[name]]).copy_(up * scale)
        assert torch.equal(storage.flat[: arrangement.layout.size], expected)
        sums = storage.sums(arrangement)
        own = layouts.chunks_in(packed.layout, arrangement.layout)
        assert np.array_equal(sums[own], packed.expected(scale).sums)
        sums[own] = 0
        assert not sums.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_strength_multiplies_in_float32_and_is_rounded_once(dtype: torch.dtype) -> None:
    values = torch.randn(64, 33, generator=torch.Generator().manual_seed(0)).to(dtype)
    there = [torch.empty_like(values)]
    for scale in (0.8, 0.3, -1.7, 1.01):
        multiply([values], scale, there)
        assert torch.equal(there[0], values.float().mul(scale).to(dtype))


def test_sums_of_another_strength_leave_the_adapter_as_it_is() -> None:
    layouts = Layouts(SHAPES, 4)
    packed = adapter({"unet.linear": 4}, 3, layouts)
    before = packed.flat.clone()
    weak = packed.expected(0.3).sums
    assert torch.equal(packed.flat, before)
    assert not np.array_equal(weak, packed.expected().sums)
    assert np.array_equal(packed.expected().sums, sums_of(packed.flat))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_largest_strength_is_found_to_the_bit(dtype: torch.dtype) -> None:
    layouts = Layouts(SHAPES, dtype.itemsize)
    packed = adapter({"unet.linear": 4}, 4, layouts, dtype)
    low, high = 1.0, 1e39
    for _ in range(80):
        middle = (low + high) / 2
        try:
            packed.check_strength(middle)
            low = middle
        except AdapterNotFinite:
            high = middle
    largest = packed.views["unet.linear"][1].abs().max()
    assert torch.isfinite(largest.clone().mul_(low))
    assert not torch.isfinite(largest.clone().mul_(high))
