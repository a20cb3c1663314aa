from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from shared.settings import settings
from tests.worker.cases import apply, files_of, reference_job, shown
from tests.worker.random_flux import NAME, RandomFlux
from worker import reference
from worker.engine import DiffusersEngine
from worker.reference import main, max_difference, read, save


@pytest.fixture(autouse=True)
def served(tiny: RandomFlux, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = settings().model_copy(update={"catalogue": tiny.catalogue_file})
    monkeypatch.setattr(reference, "settings", lambda: mine)


def test_a_list_of_jobs_is_drawn_and_compared(
    engine: DiffusersEngine, tiny: RandomFlux, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = []
    for number, case in enumerate(("ember", "two")):
        files = files_of(case, tiny.adapters)
        apply(engine, files)
        save(shown(engine), tmp_path / f"service-{number}.png")
        jobs.append({**reference_job(files), "image": str(tmp_path / f"service-{number}.png")})
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    arguments = ["--base-model", NAME, "--job", str(tmp_path / "jobs.json"), "--out", str(tmp_path / "r.png")]
    assert main(arguments) == 0
    reports = json.loads(capsys.readouterr().out)
    assert reports[0]["max_difference"] == 0
    assert 0 <= reports[1]["max_difference"] <= 3
    assert [Path(report["out"]).name for report in reports] == ["r-0.png", "r-1.png"]
    assert max_difference(read(tmp_path / "r-0.png"), read(tmp_path / "r-1.png")) > 20


def test_one_job_as_numbers(tiny: RandomFlux, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.json").write_text(json.dumps(reference_job([])))
    out = tmp_path / "r.npy"
    assert main(["--base-model", NAME, "--job", str(tmp_path / "job.json"), "--out", str(out)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["max_difference"] is None
    assert len(report["sha256"]) == 64
    assert read(out).shape == (64, 96, 3)


def test_what_cannot_be_drawn_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for content in ("{", "{}"):
        (tmp_path / "job.json").write_text(content)
        arguments = ["--base-model", NAME, "--job", str(tmp_path / "job.json"), "--out", str(tmp_path / "r.png")]
        assert main(arguments) == 1
        assert capsys.readouterr().err.count("\n") == 1
    assert main(["--base-model", "other", "--job", str(tmp_path / "job.json"), "--out", str(tmp_path / "r.png")]) == 1


def test_pictures_of_other_sizes_are_as_far_apart_as_can_be() -> None:
    small, large = np.zeros((2, 2, 3), np.uint8), np.zeros((2, 3, 3), np.uint8)
    assert max_difference(small, large) == 255
    assert max_difference(small, small + np.uint8(7)) == 7
