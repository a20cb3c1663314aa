"""The account of the bench, and its slow store."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench.busy.account import Round, summed
from bench.busy.worker import SlowStore
from shared.job import RECORD_VERSION, Job, Status
from shared.settings import Settings
from shared.storage import open_store
from tests.shared.jobs import result, spec

STAGES_MS = {"queued": 7.0, "fetch": 5.0, "swap": 15.0, "encode_prompt": 80.0, "denoise": 900.0, "decode": 100.0}


def job(number: int, claimed_ms: int) -> Job:
    name = f"job{number:06}"
    return Job(
        id=name,
        version=RECORD_VERSION,
        status=Status.SUCCEEDED,
        base_model="tiny-flux",
        group="none",
        spec=spec(),
        steps=4,
        created_ms=0,
        rank_ms=0,
        claimed_ms=claimed_ms,
        finished_ms=claimed_ms + 2000,
        result=result(name, 1).model_copy(update={"timings_ms": STAGES_MS}),
    )


def test_the_share_of_the_time_in_which_something_is_denoised() -> None:
    jobs = [job(0, 10_000), job(1, 11_000)]
    found = summed([Round(jobs, 0.9), Round(jobs, 0.94)])
    assert (found["busy_ratio"], found["busy_ratios"], found["jobs"]) == (0.92, [0.9, 0.94], 4)
    assert found["denoising_share"] == 0.9
    assert found["jobs_per_s"] == round(2 / 3, 3)
    assert found["stages_ms"]["denoise"] == 900
    assert "queued" not in found["stages_ms"]


def test_a_job_that_failed_is_told() -> None:
    failed = job(0, 0).model_copy(update={"result": None})
    with pytest.raises(ValueError, match="has not succeeded"):
        summed([Round([failed], 1.0)])


def test_the_slow_store_is_a_store(tmp_path: Path) -> None:
    store = SlowStore(open_store(Settings.model_validate({"data_folder": tmp_path})), put_s=0.05)
    store.check()
    started_s = time.monotonic()
    store.put("jobs/a/1/0.png", b"bytes", "image/png")
    assert time.monotonic() - started_s >= 0.05
    assert (store.get("jobs/a/1/0.png"), list(store.list("jobs/"))) == (b"bytes", ["jobs/a/1/0.png"])
    store.delete("jobs/a/1/0.png")
    assert list(store.list("jobs/")) == []
