"""The known base models are whole, and an entry that uses one changes what it says and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shared.adapters.served import base_of
from shared.catalogue import Catalogue, read_catalogue
from shared.errors import CatalogueInvalid
from shared.families.bundled import bundled_models
from shared.known import completed, known_base_models
from shared.sources.base_model import HubModel, base_model_source
from shared.sources.source import HubFile
from tests.recipes_table import entry_of


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Reads a catalogue from its text."""

    def read_text(text: str) -> Catalogue:
        (tmp_path / "catalogue.toml").write_text(text, encoding="utf-8")
        return read_catalogue(tmp_path / "catalogue.toml")

    return read_text


@pytest.mark.parametrize("name", known_base_models())
def test_each_is_whole(name: str) -> None:
    entry = entry_of(name)
    assert entry.licence is not None
    assert entry.parameters is not None
    base = base_of(entry)
    assert base is not None
    assert (entry.layout or name) in bundled_models()
    denoiser = [shape for layer, shape in base.layers.items() if layer.startswith(base.family.denoiser)]
    weights = sum(shape.inputs * shape.outputs * (shape.kernel or (1,))[0] ** 2 for shape in denoiser)
    # The layers that adapters may change are nearly all of it.
    assert 0.97 * entry.parameters.denoiser < weights <= entry.parameters.denoiser


@pytest.mark.parametrize("name", [name for name in known_base_models() if name != "tiny-flux"])
def test_those_of_the_hub_are_pinned_and_have_recipes_for_cards_and_the_cpu(name: str) -> None:
    entry = entry_of(name)
    source = base_model_source(entry.source)
    assert isinstance(source, HubModel)
    assert HubFile(source.repo, entry.revision, "any").is_pinned
    assert source.repo in entry.aliases
    assert (entry.device, entry.recipe) == ("auto", "auto")
    assert {recipe.device for recipe in entry.recipes.values()} == {"cpu", "cuda"}
    assert len(entry.recipes) >= 3
    for recipe in entry.recipes.values():
        assert recipe.sizes in ((), ((entry.sizes.default_width, entry.sizes.default_height),))


def test_the_bundled_catalogue_serves_tiny_flux_alone_uncompiled() -> None:
    assert read_catalogue().base_models == {"tiny-flux": entry_of("tiny-flux")}
    assert read_catalogue().get("tiny-flux").recipe == "eager"


def test_every_known_one_can_be_used_under_any_name(read: Any) -> None:
    text = "".join(f'[base_models.my-{name.replace(".", "-")}]\nuse = "{name}"\n' for name in known_base_models())
    for entry, name in zip(read(text).base_models.values(), known_base_models(), strict=True):
        assert entry == entry_of(name).model_copy(update={"name": entry.name})


def test_any_key_can_be_changed(read: Any) -> None:
    entry = read(
        """
        [base_models.mine]
        use = "flux.1-dev"
        source = "/models/mine"
        aliases = ["mine"]
        sampling = { default_steps = 20 }
        recipes.ada-24gb.sizes = [[832, 1216]]
        recipes.plain = { device = "cuda" }
        """
    ).get("mine")
    usual = entry_of("flux.1-dev")
    assert (entry.source, entry.aliases) == ("/models/mine", ("mine",))
    assert entry.sampling == usual.sampling.model_copy(update={"default_steps": 20})
    assert entry.recipes["ada-24gb"] == usual.recipes["ada-24gb"].model_copy(update={"sizes": ((832, 1216),)})
    assert list(entry.recipes) == [*usual.recipes, "plain"], "the best first, and new ones last"
    assert entry.slot == usual.slot


@pytest.mark.parametrize(
    ("own", "revision"),
    [
        ('source = "/models/mine"', "local"),
        ('source = "hf:me/mine"', "main"),
        ('source = "hf:me/mine"\nrevision = "v2"', "v2"),
        ('revision = "main"', "main"),
    ],
)
def test_a_pinned_commit_stays_with_its_repository(own: str, revision: str, read: Any) -> None:
    assert read(f'[base_models.mine]\nuse = "sd1.5"\n{own}').get("mine").revision == revision


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_recipes_for_the_other_device_do_not_stand_in_the_way(device: str, read: Any) -> None:
    entry = read(f'[base_models.mine]\nuse = "flux.1-dev"\ndevice = "{device}"').get("mine")
    assert {recipe.device for recipe in entry.candidates.values()} == {device}


@pytest.mark.parametrize("wanted", ['"flux.2"', "3", "[]", "{}"])
def test_an_unknown_one_is_refused_with_those_that_are_known(wanted: str, read: Any) -> None:
    with pytest.raises(CatalogueInvalid) as caught:
        read(f"[base_models.mine]\nuse = {wanted}")
    assert caught.value.message.startswith("The base model mine uses ")
    assert ", ".join(known_base_models()) in caught.value.message


def test_what_is_known_is_not_changed_by_what_uses_it() -> None:
    before = repr(known_base_models())
    completed("mine", {"use": "sd1.5", "recipes": {"cpu": {"dtype": "bfloat16"}}}, known_base_models())
    assert repr(known_base_models()) == before


@pytest.mark.parametrize("text", ["", "base_models = 3", "[base_models]\nmine = 3", "not toml"])
def test_files_that_are_no_catalogue(text: str, read: Any) -> None:
    with pytest.raises(CatalogueInvalid):
        read(text)
