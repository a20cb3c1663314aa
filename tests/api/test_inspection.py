"""The inspector without a server: several base models, and files that tell or do not tell which they are for."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.inspection import Inspector
from shared.adapters.served import served_bases
from shared.catalogue import Catalogue, read_catalogue
from shared.errors import AdapterUnsupported, InvalidRequest
from shared.job import JobSpec, PinnedAdapter
from shared.request import JobRequest
from shared.settings import Settings
from shared.sources.sources import Sources
from tests.adapter_bytes import SKETCH, TINY_LAYER, WIDTH, adapter_bytes, lora

TINY = read_catalogue().base_models["tiny-flux"]
TWIN = TINY.model_copy(update={"name": "twin", "builtin_adapters": (), "aliases": ("Somebody/Twin",)})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plain").write_bytes(SKETCH)
    (tmp_path / "twin").write_bytes(adapter_bytes(lora(), {"base_model": "somebody/twin"}))
    (tmp_path / "dora").write_bytes(adapter_bytes(lora() | {f"{TINY_LAYER}.lora_magnitude_vector": (WIDTH,)}))
    (tmp_path / "page").write_bytes(b"<html>")
    return tmp_path


def inspector(folder: Path) -> Inspector:
    catalogue = Catalogue(base_models={"tiny-flux": TINY, "twin": TWIN})
    return Inspector(catalogue, served_bases(catalogue), Sources(Settings(adapter_folder=folder)).open_source)


def request(*sources: str, base_model: str | None = None) -> JobRequest:
    adapters = [{"source": source} for source in sources]
    return JobRequest.model_validate({"prompt": "a fox", "adapters": adapters, "base_model": base_model})


def test_a_file_that_tells(folder: Path) -> None:
    here = inspector(folder)
    assert here.with_base_model(request("file:twin")).base_model == "twin"
    verdict = here.inspect("file:twin", None).verdict
    assert verdict is not None
    assert (verdict.base_model, verdict.outcome) == ("twin", "fits")


def test_a_file_that_does_not_tell(folder: Path) -> None:
    here = inspector(folder)
    with pytest.raises(InvalidRequest, match="served here: tiny-flux, twin") as refused:
        here.with_base_model(request("file:plain"))
    assert refused.value.field == "base_model"
    assert here.inspect("file:plain", None).verdict is None
    verdict = here.inspect("file:plain", "twin").verdict
    assert verdict is not None
    assert verdict.outcome == "fits"


def test_a_file_that_no_base_model_takes(folder: Path) -> None:
    verdict = inspector(folder).inspect("file:dora", None).verdict
    assert verdict is not None
    assert (verdict.base_model, verdict.outcome, verdict.reason) == (None, "refused", "dora")


def test_what_names_a_base_model_already_is_left_alone(folder: Path) -> None:
    here = inspector(folder)
    for asked in (request("file:page", base_model="twin"), request("night", "file:plain"), request()):
        assert here.with_base_model(asked) is asked
    with pytest.raises(AdapterUnsupported):
        # Another file's fault is found all the same, once the job is clear.
        here.check_job(_spec("file:dora"), {})


def _spec(source: str) -> JobSpec:
    return JobSpec(
        prompt="a fox",
        base_model="twin",
        adapters=[PinnedAdapter(source=source, scale=1.0, sha256="0" * 64, location=source)],
        width=128,
        height=128,
        steps=1,
        guidance_scale=1.0,
        seed=1,
        num_images=1,
        format="png",
    )
