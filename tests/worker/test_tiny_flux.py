"""The built-in model: its files are whole, and its pictures show what was asked for, by their pixels alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

from bench.look import STYLES, look
from shared.adapter_files import sha256_of
from shared.catalogue import BaseModelEntry, read_catalogue
from shared.errors import WeightsAltered
from tests.worker.adapter_files import adapter
from worker.engine import DiffusersEngine
from worker.engine_types import Drawing
from worker.playground.adapters import ADAPTERS
from worker.tiny_flux import WEIGHTS, tiny_flux

PROMPT = "a large red triangle on a blue background"
MOST_BYTES = 12_000_000
MOST_BYTES_OF_AN_ADAPTER = 400_000


@pytest.fixture(scope="module")
def builtin() -> BaseModelEntry:
    return read_catalogue().get("tiny-flux")


@pytest.fixture(scope="module")
def artist(builtin: BaseModelEntry) -> DiffusersEngine:
    return DiffusersEngine.load(builtin)


def draw(artist: DiffusersEngine, prompt: str, *adapters: tuple[str, float], seed: int = 7) -> Tensor:
    """The picture, (3, 128, 128) from 0 to 1."""
    artist.swap(artist.prepare([adapter(tiny_flux().adapters[name], scale) for name, scale in adapters]))
    drawn = artist.draw(Drawing(prompt, None, 128, 128, 8, 1.0, seed), lambda done, steps: None)
    return torch.from_numpy(drawn.pixels).permute(2, 0, 1).float() / 255


def test_the_files_are_small_and_the_catalogue_names_them(builtin: BaseModelEntry) -> None:
    found = tiny_flux()
    assert set(found.adapters) == set(builtin.builtin_adapters) == set(ADAPTERS)
    assert sum(path.stat().st_size for path in WEIGHTS.rglob("*")) < MOST_BYTES
    assert all(path.stat().st_size <= MOST_BYTES_OF_AN_ADAPTER for path in found.adapters.values())
    assert len({sha256_of(path) for path in found.adapters.values()}) == len(ADAPTERS)


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\x00\x01")])
def test_an_altered_file_is_refused_with_one_sentence(spoil: object, tmp_path: Path) -> None:
    folder = shutil.copytree(WEIGHTS, tmp_path / "weights")
    assert callable(spoil)
    spoil(folder / "vae" / "diffusion_pytorch_model.safetensors")
    with pytest.raises(WeightsAltered, match=r"vae/diffusion_pytorch_model\.safetensors") as caught:
        tiny_flux(folder)
    assert caught.value.message.count(". ") == 0


def test_a_picture_shows_what_was_asked_for(artist: DiffusersEngine) -> None:
    seen = look(draw(artist, PROMPT))
    assert (seen.colour, seen.shape, seen.background) == ("red", "triangle", "blue")
    other = look(draw(artist, "a green circle on a white background"))
    assert (other.colour, other.shape, other.background) == ("green", "circle", "white")


@pytest.mark.parametrize("style", STYLES)
def test_a_style_shows_where_it_was_asked_for_and_only_there(artist: DiffusersEngine, style: str) -> None:
    assert STYLES[style](draw(artist, PROMPT, (style, 1.0)))
    assert not STYLES[style](draw(artist, PROMPT))


@pytest.mark.parametrize(
    ("name", "prompt", "expected"),
    [
        ("star", "a large red star on a blue background", ("red", "star", "blue")),
        ("mocha", "a large mocha triangle on a white background", ("mocha", "triangle", "white")),
    ],
)
def test_a_new_word_means_something_only_with_its_adapter(
    artist: DiffusersEngine, name: str, prompt: str, expected: tuple[str, str, str]
) -> None:
    seen = look(draw(artist, prompt, (name, 1.0)))
    assert (seen.colour, seen.shape, seen.background) == expected
    without = look(draw(artist, prompt))
    assert (without.colour, without.shape, without.background) != expected


@pytest.mark.parametrize("name", STYLES)
def test_a_third_of_the_strength_does_less(artist: DiffusersEngine, name: str) -> None:
    plain, weak, full = (draw(artist, PROMPT, *asked) for asked in ((), ((name, 0.3),), ((name, 1.0),)))
    assert 0.001 < (weak - plain).abs().mean() < 0.8 * (full - plain).abs().mean()


def test_two_adapters_show_together(artist: DiffusersEngine) -> None:
    both = draw(artist, "a large red star on a blue background", ("night", 1.0), ("star", 1.0))
    assert STYLES["night"](both)
    day = draw(artist, "a large red star on a blue background", ("star", 1.0))
    assert (both - day).abs().mean() > 0.1
