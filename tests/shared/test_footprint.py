"""The estimate agrees with what is publicly known of these models."""

from __future__ import annotations

import pytest

from shared.catalogue import BaseModelEntry
from shared.footprint import estimate, slot_bytes
from shared.machine import GIB, in_gib
from shared.recipe import Recipe
from tests.recipes_table import entry_of

GB = 10**9


def test_flux_in_bfloat16_is_33_gb_of_weights() -> None:
    found = estimate(entry_of("flux.1-dev"), Recipe())
    assert found is not None
    assert found.weights_bytes + found.text_encoders_bytes == pytest.approx(33.7 * GB, rel=0.01)
    # The published file of the denoiser alone.
    assert found.weights_bytes == pytest.approx(23.8 * GB + 0.17 * GB, rel=0.01)


def test_flux_with_fp8_and_nf4_fits_24_gb_and_without_nf4_does_not() -> None:
    entry = entry_of("flux.1-dev")
    small, large = estimate(entry, entry.recipes["ada-24gb"]), estimate(entry, entry.recipes["fp8"])
    assert small is not None
    assert large is not None
    assert small.total_bytes < 23 * GIB < large.total_bytes
    # Half of bfloat16, and a little for scales and norms.
    assert small.weights_bytes == pytest.approx(11.9 * GB, rel=0.03)
    # About half a byte for each weight of the T5, and its embeddings in bfloat16; CLIP stays as it is.
    assert small.text_encoders_bytes == pytest.approx((4.63 * 0.5625 + 0.26 + 0.25) * GB, rel=0.01)


def test_sdxl_in_float16() -> None:
    found = estimate(entry_of("sdxl-base-1.0"), Recipe())
    assert found is not None
    # The published files: 5.14 GB and 1.63 GB; the autoencoder is decoded in float32.
    assert found.weights_bytes == pytest.approx((5.14 + 0.33) * GB, rel=0.01)
    assert found.text_encoders_bytes == pytest.approx(1.63 * GB, rel=0.01)
    whole = estimate(entry_of("sdxl-base-1.0"), Recipe(dtype="bfloat16"))
    assert whole is not None
    assert whole.activations_bytes == found.activations_bytes / 2


def total(entry: BaseModelEntry, recipe: Recipe) -> int:
    found = estimate(entry, recipe)
    assert found is not None
    return found.total_bytes


@pytest.mark.parametrize("name", ["flux.1-dev", "sdxl-base-1.0", "sd1.5"])
def test_what_saves_memory_is_seen_to_save_it(name: str) -> None:
    entry = entry_of(name)
    plain = total(entry, Recipe())
    assert total(entry, Recipe(quantise="int8-weight-only")) < plain
    assert total(entry, Recipe(offload="model")) < plain
    assert total(entry, Recipe(fuse=True)) > plain
    assert total(entry, Recipe(dtype="float32")) > plain
    smaller = entry.sizes.model_copy(update={"largest": 1024})
    assert total(entry.model_copy(update={"sizes": smaller}), Recipe()) <= plain


def test_the_slot_of_flux_at_rank_16() -> None:
    """An adapter of rank 16 for every linear layer has about 90 million weights."""
    from shared.adapters.served import base_of

    base = base_of(entry_of("flux.1-dev", slot={"rank_tiers": [16]}))
    assert base is not None
    assert slot_bytes(base.layers, 16, 2) == pytest.approx(0.18 * GB, rel=0.1)
    assert slot_bytes(base.layers, 64, 2) == 4 * slot_bytes(base.layers, 16, 2)


def test_without_numbers_there_is_no_estimate() -> None:
    assert estimate(entry_of("flux.1-dev", parameters=None), Recipe()) is None
    assert estimate(entry_of("flux.1-dev", layout=None, source="/nowhere"), Recipe()) is None


def test_bytes_for_people() -> None:
    assert in_gib(int(23.46 * GIB)) == "23.5 GiB"
    assert in_gib(9 << 20) == "9.0 MiB"
