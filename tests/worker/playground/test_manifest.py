from __future__ import annotations

import json
from pathlib import Path

import pytest

from shared.errors import WeightsAltered
from worker.playground.manifest import NAME, proven, write_manifest


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    folder = tmp_path / "weights"
    (folder / "vae").mkdir(parents=True)
    (folder / "vae" / "model.safetensors").write_bytes(b"weights")
    (folder / "model_index.json").write_text("{}")
    write_manifest(folder)
    return folder


def test_what_was_written_is_proven(weights: Path) -> None:
    version, files = proven(weights)
    assert len(version) == 12
    assert [str(file.relative_to(weights)) for file in files] == ["model_index.json", "vae/model.safetensors"]
    assert proven(weights) == (version, files)


def test_other_weights_have_another_name(weights: Path) -> None:
    before = proven(weights)
    (weights / "model_index.json").write_text("[]")
    write_manifest(weights)
    assert proven(weights) != before


def test_an_altered_file_is_refused_by_name(weights: Path) -> None:
    (weights / "vae" / "model.safetensors").write_bytes(b"weightz")
    with pytest.raises(WeightsAltered, match=r"vae/model\.safetensors is not the one") as caught:
        proven(weights)
    assert caught.value.message.count(".\n") == 0
    assert str(weights) not in caught.value.message


def test_a_deleted_file_is_refused_by_name(weights: Path) -> None:
    (weights / "model_index.json").unlink()
    with pytest.raises(WeightsAltered, match=r"model_index\.json is missing"):
        proven(weights)


@pytest.mark.parametrize("text", [None, "{", "[]", "{}", json.dumps({"files": 1})])
def test_a_broken_manifest_is_refused(weights: Path, text: str | None) -> None:
    (weights / NAME).unlink()
    if text is not None:
        (weights / NAME).write_text(text)
    with pytest.raises(WeightsAltered, match=NAME):
        proven(weights)
