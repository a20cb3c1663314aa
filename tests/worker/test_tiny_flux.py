from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from shared.catalogue import BaseModelEntry
from tests.worker.adapter_files import adapter
from worker.engine import DiffusersEngine
from worker.engine_types import Drawing
from worker.tiny_flux import TinyFlux, ensure_tiny_flux

PROMPTS = ("a red fox in the snow", "city in the rain at night")


def picture(engine: DiffusersEngine, tiny: TinyFlux, name: str | None, prompt: str, seed: int = 1) -> np.ndarray:
    engine.swap(engine.prepare([adapter(tiny.adapters[name])] if name else []))
    drawing = Drawing(prompt, None, 128, 128, 8, 3.5, seed)
    return engine.draw(drawing, lambda done, steps: None).pixels.astype(float)


def test_the_catalogue_names_its_adapters(entry: BaseModelEntry, tiny: TinyFlux) -> None:
    assert set(tiny.adapters) == set(entry.builtin_adapters)
    assert tiny.pipeline_folder.name == tiny.version


def test_pictures_have_contrast_and_depend_on_prompt_and_seed(engine: DiffusersEngine, tiny: TinyFlux) -> None:
    first = picture(engine, tiny, None, PROMPTS[0])
    assert first.std() > 25
    assert np.abs(first - picture(engine, tiny, None, PROMPTS[1])).mean() > 15
    assert np.abs(first - picture(engine, tiny, None, PROMPTS[0], seed=2)).mean() > 15


def test_each_adapter_shows_in_its_own_colour(engine: DiffusersEngine, tiny: TinyFlux) -> None:
    for prompt in PROMPTS:
        pictures = {name: picture(engine, tiny, name, prompt) for name in (None, *tiny.adapters)}
        red, green, blue = (
            {name: shown[:, :, channel].mean() for name, shown in pictures.items()} for channel in range(3)
        )
        assert red["ember"] > green["ember"] > blue["ember"]
        assert green["moss"] > red["moss"]
        assert green["moss"] > blue["moss"]
        assert blue["glacier"] > red["glacier"]
        assert min(red["violet"], blue["violet"]) > green["violet"]
        names = list(pictures)
        for index, one in enumerate(names):
            for other in names[index + 1 :]:
                assert np.abs(pictures[one] - pictures[other]).mean() > 15, (one, other)


def test_two_processes_make_it_at_once(tmp_path: Path) -> None:
    code = "import sys, pathlib; from worker.tiny_flux import *; ensure_tiny_flux(pathlib.Path(sys.argv[1]))"
    makers = [subprocess.Popen([sys.executable, "-c", code, tmp_path], stderr=subprocess.PIPE) for _ in range(2)]
    for maker in makers:
        _, errors = maker.communicate(timeout=300)
        assert maker.returncode == 0, errors.decode()
        # Nothing of the libraries' chatter reaches the terminal.
        assert errors == b""
    made = ensure_tiny_flux(tmp_path)
    assert len(made.adapters) == 4
    assert [path.name for path in (tmp_path / "tiny-flux").iterdir() if path.is_dir()] == [made.version]


def test_a_second_making_gives_the_same_bytes(tiny: TinyFlux, tmp_path: Path) -> None:
    again = ensure_tiny_flux(tmp_path)
    for path in sorted(tiny.pipeline_folder.rglob("*.safetensors")):
        other = again.pipeline_folder / path.relative_to(tiny.pipeline_folder)
        assert hashlib.sha256(path.read_bytes()).digest() == hashlib.sha256(other.read_bytes()).digest(), path.name


def test_a_half_made_folder_is_never_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    abandoned = tmp_path / "tiny-flux" / ".making-killed"
    abandoned.mkdir(parents=True)
    with monkeypatch.context() as patched:
        patched.setattr("worker.tiny_flux_adapters.write_adapters", _fail)
        with pytest.raises(RuntimeError, match="no room"):
            ensure_tiny_flux(tmp_path)
    assert [path.name for path in (tmp_path / "tiny-flux").iterdir()] == [".lock"]
    assert len(ensure_tiny_flux(tmp_path).adapters) == 4


def _fail(*_: object) -> None:
    raise RuntimeError("no room")
