from __future__ import annotations

from pathlib import Path

from PIL import Image

from cli.demo.references import TOLERANCE, allowed, difference, job_of, one_per_set, verdict
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
    assert len(sets) == len(set(sets)) == 10
    assert {"none", "star", "night", "night:0.5", "night + star"} <= set(sets)
    assert {one.planned.adapter_words for one in chosen if one.planned.exact} == {
        "none", "night", "night:0.5", "mosaic", "mocha",
    }  # fmt: skip


def test_the_reference_draws_the_same_job(tmp_path: Path) -> None:
    one = next(one for one in good_outcome(tmp_path).ended if one.planned.adapter_words == "outline:0.5")
    job = job_of(one)
    assert job["adapters"] == [{"sha256": sha256_of_name("outline"), "scale": 0.5}]
    assert (job["prompt"], job["seed"], job["width"]) == (one.planned.prompt, one.planned.seed, 128)
