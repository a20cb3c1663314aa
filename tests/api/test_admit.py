"""Admission without a server: defaults, limits, base models, adapters."""

from __future__ import annotations

from typing import Any

import pytest

from api.admit import MOST_LISTED, admit, unserved
from shared.catalogue import Catalogue, read_catalogue
from shared.errors import (
    AdapterNotReady,
    HotslotError,
    InvalidRequest,
    UnknownAdapter,
    UnknownBaseModel,
)
from shared.job import JobSpec
from shared.presence import State
from shared.registry import RegisteredAdapter
from shared.request import LARGEST_SEED, JobRequest
from shared.sources.identity import Identity, identity_key

TINY = read_catalogue().base_models["tiny-flux"]
OTHER = TINY.model_copy(update={"name": "other", "builtin_adapters": ("coral",)})
CATALOGUE = Catalogue(base_models={"tiny-flux": TINY, "other": OTHER})


def _registered(name: str, rank: int = 8, base_model: str = "tiny-flux", sha256: str = "") -> RegisteredAdapter:
    return RegisteredAdapter(
        name=name, base_model=base_model, sha256=sha256 or name, location=f"builtin:{name}", rank=rank
    )


REGISTERED = {
    adapter.name: adapter
    for adapter in (
        _registered("night"),
        _registered("mosaic"),
        _registered("mosaic-again", sha256="mosaic"),
        _registered("foreign", base_model="other"),
    )
}


def _pin(source: str, field: str) -> Identity:
    if source in ("file:absent", "remote"):
        raise UnknownAdapter("no", field=field)
    sha256 = "sha-of-sketch" if source.startswith("file:") else None
    return Identity(location=f"{source}@now", revision="now", sha256=sha256)


def _admit(**body: Any) -> tuple[JobSpec, list[str]]:
    request = JobRequest.model_validate({"prompt": "a fox"} | body)
    return admit(request, CATALOGUE, REGISTERED, _pin, lambda: 1234)


def _sources(*sources: str) -> list[dict[str, str]]:
    return [{"source": source} for source in sources]


def test_defaults_are_filled_in() -> None:
    spec, warnings = _admit(base_model="tiny-flux")
    assert (spec.width, spec.height, spec.steps, spec.guidance_scale, spec.seed) == (128, 128, 8, 1.0, 1234)
    assert spec.adapters == []
    assert warnings == []


def test_what_is_asked_for_is_kept() -> None:
    spec, _ = _admit(
        base_model="tiny-flux", width=64, height=256, steps=100, guidance_scale=0.0, seed=0, num_images=4, format="webp"
    )
    assert (spec.width, spec.height, spec.steps, spec.guidance_scale, spec.seed) == (64, 256, 100, 0.0, 0)
    assert (spec.num_images, spec.format) == (4, "webp")


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({"width": 72}, "width", "width: 72 is not allowed; tiny-flux takes multiples of 32 from 32 to 256."),
        ({"height": 72}, "height", "height: 72 is not allowed; tiny-flux takes multiples of 32 from 32 to 256."),
        ({"width": 65}, "width", "multiples of 32 from 32 to 256"),
        ({"width": 8}, "width", "multiples of 32 from 32 to 256"),
        ({"width": 16}, "width", "multiples of 32 from 32 to 256"),
        ({"width": 0, "height": 64}, "width", "multiples of 32 from 32 to 256"),
        ({"width": -64}, "width", "multiples of 32 from 32 to 256"),
        ({"width": 272}, "width", "multiples of 32 from 32 to 256"),
        ({"width": 100_000, "height": 10_000}, "width", "multiples of 32 from 32 to 256"),
        ({"steps": 0}, "steps", "steps: 0 is not allowed; tiny-flux takes whole numbers from 1 to 100."),
        ({"steps": -1}, "steps", "whole numbers from 1 to 100"),
        ({"steps": 101}, "steps", "whole numbers from 1 to 100"),
        ({"guidance_scale": -0.5}, "guidance_scale", "-0.5 is not allowed; tiny-flux takes numbers from 0 to 20."),
        ({"guidance_scale": 20.5}, "guidance_scale", "numbers from 0 to 20"),
        ({"seed": LARGEST_SEED, "num_images": 2}, "seed", f"from 0 to {LARGEST_SEED - 1}"),
    ],
)
def test_numbers_out_of_range_are_refused(body: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        _admit(base_model="tiny-flux", **body)
    assert refused.value.field == field
    assert refused.value.message.startswith(f"{field}: ")
    assert said in refused.value.message


def test_all_numbers_out_of_range_are_named_at_once() -> None:
    with pytest.raises(InvalidRequest) as refused:
        _admit(base_model="tiny-flux", width=72, height=64, steps=0, guidance_scale=-1, adapters=_sources("night"))
    faults = (refused.value, *refused.value.others)
    assert [fault.field for fault in faults] == ["width", "steps", "guidance_scale"]
    assert all(fault.message.startswith(f"{fault.field}: ") for fault in faults)


def test_the_largest_seed_is_taken_for_one_image() -> None:
    assert _admit(base_model="tiny-flux", seed=LARGEST_SEED)[0].seed == LARGEST_SEED


# --- base model -----------------------------------------------------------------------------------


def test_the_base_model_follows_from_an_adapter() -> None:
    assert _admit(adapters=_sources("foreign"))[0].base_model == "other"


def test_an_adapter_of_another_base_model_is_refused_with_both_names() -> None:
    with pytest.raises(InvalidRequest) as refused:
        _admit(base_model="tiny-flux", adapters=_sources("foreign"))
    assert refused.value.field == "base_model"
    assert "base_model is for tiny-flux" in refused.value.message
    assert "adapters[0] is for other" in refused.value.message


def test_adapters_of_two_base_models_are_refused_with_both_names() -> None:
    with pytest.raises(InvalidRequest, match=r"adapters\[0\] is for tiny-flux, adapters\[1\] is for other"):
        _admit(adapters=_sources("night", "foreign"))


def test_without_any_base_model_it_is_said_what_is_served() -> None:
    with pytest.raises(InvalidRequest, match="served here: other, tiny-flux") as refused:
        _admit()
    assert refused.value.field == "base_model"


def test_an_unknown_base_model_is_refused_with_what_is_served() -> None:
    with pytest.raises(UnknownBaseModel, match="'sdxl' is not served here; choose one of: other, tiny-flux"):
        _admit(base_model="sdxl")


def test_an_adapter_of_a_base_model_that_is_no_longer_served_is_refused() -> None:
    registered = {"old": _registered("old", base_model="retired")}
    request = JobRequest(prompt="a fox", adapters=JobRequest.model_validate(
        {"prompt": "x", "adapters": _sources("old")}
    ).adapters)  # fmt: skip
    with pytest.raises(UnknownBaseModel, match="'retired' is not served here"):
        admit(request, CATALOGUE, registered, _pin, lambda: 1)


# --- adapters -------------------------------------------------------------------------------------


def test_a_registered_adapter_is_pinned_to_its_bytes() -> None:
    (pinned,) = _admit(adapters=[{"source": "night", "scale": -0.5}])[0].adapters
    assert (pinned.source, pinned.scale, pinned.sha256, pinned.location) == ("night", -0.5, "night", "builtin:night")


def test_a_file_is_pinned_to_its_bytes() -> None:
    (pinned,) = _admit(base_model="tiny-flux", adapters=_sources("file:mine/sketch.safetensors"))[0].adapters
    assert pinned.sha256 == "sha-of-sketch"
    assert pinned.source == "file:mine/sketch.safetensors"
    assert pinned.location == "file:mine/sketch.safetensors@now"


def test_a_remote_adapter_is_pinned_to_its_version_and_its_query_is_shown_nowhere() -> None:
    text = "https://example.com/a?X-Amz-Signature=hunter2"
    (pinned,) = _admit(base_model="tiny-flux", adapters=_sources(text))[0].adapters
    assert (pinned.source, pinned.sha256, pinned.revision) == ("https://example.com/a?…", None, "now")
    assert pinned.location == f"{text}@now"
    assert pinned.identity == identity_key(pinned.location, "now")
    with pytest.raises(InvalidRequest) as refused:
        _admit(base_model="tiny-flux", adapters=_sources(text, text))
    assert "hunter2" not in refused.value.message


def test_a_registered_adapter_keeps_its_version_if_it_may_still_be_read() -> None:
    def registered(location: str) -> dict[str, RegisteredAdapter]:
        one = _registered("night").model_copy(update={"location": location, "revision": "then", "sha256": None})
        return {"night": one, "remote": one}

    def admitted(source: str, location: str) -> JobSpec:
        request = JobRequest.model_validate({"prompt": "x", "adapters": _sources(source)})
        return admit(request, CATALOGUE, registered(location), _pin, lambda: 1)[0]

    (pinned,) = admitted("night", "s3://bucket/key").adapters
    assert (pinned.location, pinned.revision, pinned.sha256) == ("s3://bucket/key", "then", None)
    admitted("remote", "builtin:night")
    with pytest.raises(UnknownAdapter):
        admitted("remote", "s3://bucket/key")


def test_a_file_needs_a_base_model_in_the_request() -> None:
    with pytest.raises(InvalidRequest, match="name one, because no adapter does"):
        _admit(adapters=_sources("file:mine/sketch.safetensors"))


@pytest.mark.parametrize("adapters", [("night", "night"), ("mosaic", "night", "mosaic"), ("mosaic", "mosaic-again")])
def test_the_same_adapter_twice_is_refused(adapters: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequest, match="is the same adapter as adapters") as refused:
        _admit(adapters=_sources(*adapters))
    assert refused.value.field == f"adapters[{len(adapters) - 1}].source"


@pytest.mark.parametrize("base_model", [None, "tiny-flux"])
def test_an_unknown_adapter_is_refused_with_what_is_registered(base_model: str | None) -> None:
    with pytest.raises(UnknownAdapter, match='"embr" is not registered') as refused:
        _admit(base_model=base_model, adapters=_sources("embr"))
    assert refused.value.field == "adapters[0].source"
    assert "mosaic, mosaic-again, night" in refused.value.message
    assert ("foreign" in refused.value.message) is (base_model is None)


def test_a_long_list_of_names_is_cut() -> None:
    many = {f"a{n:03}": _registered(f"a{n:03}") for n in range(MOST_LISTED + 5)}
    request = JobRequest.model_validate({"prompt": "x", "base_model": "tiny-flux", "adapters": _sources("embr")})
    with pytest.raises(UnknownAdapter, match="a019 and 5 more"):
        admit(request, CATALOGUE, many, _pin, lambda: 1)


@pytest.mark.parametrize("source", ["ftp://x", "builtin:night", "data:abc"])
@pytest.mark.parametrize("base_model", [None, "tiny-flux"])
def test_other_kinds_of_sources_are_refused_with_those_that_are_taken(source: str, base_model: str | None) -> None:
    with pytest.raises(UnknownAdapter, match="taken are a registered name, hf:OWNER") as refused:
        _admit(base_model=base_model, adapters=_sources(source))
    assert refused.value.field == "adapters[0].source"


@pytest.mark.parametrize("base_model", [None, "tiny-flux"])
def test_a_builtin_adapter_that_no_worker_has_made_yet_is_not_ready(base_model: str | None) -> None:
    with pytest.raises(AdapterNotReady, match="outline is being prepared") as refused:
        _admit(base_model=base_model, adapters=_sources("outline"))
    assert refused.value.retryable


def test_a_builtin_adapter_of_another_base_model_is_unknown() -> None:
    with pytest.raises(UnknownAdapter):
        _admit(base_model="tiny-flux", adapters=_sources("coral"))


# --- warnings -------------------------------------------------------------------------------------


def test_a_negative_prompt_without_effect_is_a_warning() -> None:
    assert _admit(base_model="tiny-flux", negative_prompt="fog")[1] == ["negative_prompt has no effect on tiny-flux."]
    assert _admit(base_model="tiny-flux", negative_prompt="")[1] == []


def test_guidance_has_no_effect_on_a_model_without_it() -> None:
    assert _admit(base_model="tiny-flux", guidance_scale=3.0)[1] == ["guidance_scale has no effect on tiny-flux."]
    assert _admit(base_model="tiny-flux")[1] == []
    guided = TINY.model_copy(update={"sampling": TINY.sampling.model_copy(update={"guidance": True})})
    request = JobRequest(prompt="a fox", base_model="tiny-flux", guidance_scale=3.0)
    assert admit(request, Catalogue(base_models={"tiny-flux": guided}), {}, _pin, lambda: 1)[1] == []


def test_a_negative_prompt_with_effect_is_none() -> None:
    sampling = TINY.sampling.model_copy(update={"negative_prompt": True})
    catalogue = Catalogue(base_models={"tiny-flux": TINY.model_copy(update={"sampling": sampling})})
    request = JobRequest(prompt="a fox", base_model="tiny-flux", negative_prompt="fog")
    assert admit(request, catalogue, {}, _pin, lambda: 1)[1] == []


@pytest.mark.parametrize(
    ("state", "base_model", "warned"),
    [
        ("idle", "tiny-flux", False),
        ("starting", "tiny-flux", False),
        ("stopping", "tiny-flux", True),
        ("idle", "x", True),
    ],
)
def test_a_base_model_that_nobody_serves_is_a_warning(state: State, base_model: str, warned: bool) -> None:
    assert bool(unserved("tiny-flux", [(base_model, state)])) is warned


def test_every_refusal_is_one_of_ours() -> None:
    for body in ({"steps": 0}, {"base_model": "x"}, {"adapters": _sources("x")}, {}):
        with pytest.raises(HotslotError):
            _admit(**body)
