"""Headers of real adapters, at full shape, against the layers of FLUX.1-dev."""

from __future__ import annotations

import pytest

from shared.adapters.base import BaseLayers
from shared.adapters.names import Dialect
from shared.adapters.plan import AdapterPlan, plan_adapter
from shared.errors import AdapterMismatch, AdapterRankTooLarge, AdapterUnsupported
from shared.families.bundled import bundled_models
from shared.families.flux import FLUX
from tests.shared.adapters.field_headers import FieldHeader, field_headers

HEADERS = field_headers()
DEV = BaseLayers(FLUX, bundled_models()["flux.1-dev"].layers(), top_rank=128)
TAKEN = {"aitoolkit": Dialect.COMFYUI, "diffusers": Dialect.DIFFUSERS, "kohya": Dialect.KOHYA, "xlabs": Dialect.XLABS}


def verdict(header: FieldHeader) -> str:
    try:
        return "converts" if plan_adapter(header.header(), DEV).renamed else "fits"
    except AdapterUnsupported as refused:
        names = {"control": "control adapter", "dora": "DoRA"}
        return f"refused: {names[refused.reason] if names[refused.reason] in refused.message else refused.message}"


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_the_verdict_is_the_right_one(header: FieldHeader) -> None:
    assert verdict(header) == header.verdict


def plan(name: str) -> AdapterPlan:
    return plan_adapter(HEADERS[name].header(), DEV)


@pytest.mark.parametrize("name", TAKEN)
def test_every_tensor_is_applied(name: str) -> None:
    found = plan(name)
    assert {key for layer in found.layers for key in layer.keys} == set(HEADERS[name].shapes())
    assert found.dialect is TAKEN[name]


def test_how_many_layers_each_changes() -> None:
    # Fused layers become three or four: 19 x (8 + 2 modulations + 4) and 38 x (4 + 1 + modulation).
    counts = {name: len(plan(name).layers) for name in TAKEN}
    assert counts == {"aitoolkit": 19 * 12 + 38 * 5, "diffusers": 19 * 14 + 38 * 6, "kohya": 494, "xlabs": 3 * 8}
    assert counts["diffusers"] == counts["kohya"]


def test_a_smaller_slot_refuses_by_rank() -> None:
    small = BaseLayers(FLUX, DEV.layers, top_rank=16)
    with pytest.raises(AdapterRankTooLarge, match=r"rank 32.*16"):
        plan_adapter(HEADERS["diffusers"].header(), small)


@pytest.mark.parametrize("other", ["sdxl-base-1.0", "sd1.5"])
@pytest.mark.parametrize("name", TAKEN)
def test_another_family_refuses_and_says_which_it_is_for(name: str, other: str) -> None:
    bundled = bundled_models()[other]
    with pytest.raises(AdapterMismatch, match=r"another family of base models \(flux.1\)"):
        plan_adapter(HEADERS[name].header(), BaseLayers(bundled.family, bundled.layers(), top_rank=128))
