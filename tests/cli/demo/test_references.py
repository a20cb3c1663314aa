from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from cli.demo.references import TOLERANCE, adapter_files, allowed, difference, job_of, one_per_set, verdict
from shared.adapter_files import sha256_of
from shared.errors import HotslotError
from tests.cli.demo.outcomes import good_outcome, sha256_of_name


def picture(path: Path, *, size: tuple[int, int] = (4, 4), changed: int = 0) -> Path:
    image = Image.new("RGB", size, (100, 100, 100))
    image.putpixel((1, 2), (100, 100 - changed, 100))
    image.save(path)
    return path


def test_the_largest_difference_of_any_value_counts(tmp_path: Path) -> None:
    plain = picture(tmp_path / "a.png")
    assert difference(plain, plain) == 0
    assert difference(plain, picture(tmp_path / "b.png", changed=3)) == 3
    assert difference(picture(tmp_path / "b.png", changed=3), plain) == 3
    assert difference(plain, picture(tmp_path / "c.png", size=(4, 5))) == 255


def test_exact_means_exact() -> None:
    assert (allowed(True), allowed(False)) == (0, TOLERANCE)
    assert verdict(0, True) == verdict(0, False) == "bit-equal"
    assert verdict(1, True) == "1/255 off (NOT within 0)"
    assert verdict(1, False) == f"1/255 off (within {TOLERANCE})"
    assert verdict(TOLERANCE + 1, False) == f"{TOLERANCE + 1}/255 off (NOT within {TOLERANCE})"


def test_one_job_of_each_set_of_adapters_and_strengths(tmp_path: Path) -> None:
    chosen = one_per_set(good_outcome(tmp_path).ended)
    sets = [one.planned.adapter_words for one in chosen]
    assert len(sets) == len(set(sets)) == 8
    assert {"none", "ember", "ember:0.5", "glacier:0.5 + violet:0.5"} <= set(sets)
    assert {one.planned.adapter_words for one in chosen if one.planned.exact} == {
        "none", "ember", "ember:0.5", "moss", "moss:0.5",
    }  # fmt: skip


def test_adapters_are_found_by_their_bytes(tmp_path: Path) -> None:
    folder = tmp_path / "tiny-flux" / "version" / "adapters"
    folder.mkdir(parents=True)
    (folder / "ember.safetensors").write_bytes(b"ember")
    sha256 = sha256_of(folder / "ember.safetensors")
    assert adapter_files(tmp_path, {sha256}) == {sha256: folder / "ember.safetensors"}
    with pytest.raises(HotslotError, match="00ff"):
        adapter_files(tmp_path, {sha256, "00ff"})


def test_the_reference_draws_the_same_job(tmp_path: Path) -> None:
    one = good_outcome(tmp_path).ended[5]
    job = job_of(one, {sha256_of_name("ember"): Path("/cache/ember.safetensors")})
    assert job["adapters"] == [{"path": "/cache/ember.safetensors", "scale": 0.5}]
    assert (job["prompt"], job["seed"], job["width"]) == (one.planned.prompt, one.planned.seed, 128)
