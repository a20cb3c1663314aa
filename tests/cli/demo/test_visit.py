"""The demo on a stack that runs already."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import SecretStr
from rich.console import Console
from typer.testing import CliRunner

from cli.client import Client
from cli.demo import visit as visit_module
from cli.demo.run import plan_demo
from cli.demo.visit import NO_HOST, NO_SECRET, NO_TORCH, WorkerWatch, unchecked, visit
from cli.log_lines import FileLog
from cli.main import app
from cli.readiness import await_ready
from cli.stack import Stack
from shared.errors import InvalidRequest, Misconfigured, Unavailable
from shared.settings import Settings
from tests.cli.api_server import ApiServer, Reply

LONGEST_S = 500.0


def test_jobs_webhook_and_images_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Fresh pipelines are compared in the test of the other demo, by the same code.
    monkeypatch.setattr(visit_module, "_has_torch", lambda: False)
    plan = plan_demo(tmp_path / "data")
    (tmp_path / "logs").mkdir()
    with closing(FileLog(tmp_path / "logs")) as log:
        stack = Stack(plan, log)
        stack.start()
        try:
            with Client(plan.url) as client:
                await_ready(client, plan.base_models, lambda: stack.failure is None)
            assert plan.webhook_secret_file is not None
            secret = SecretStr(plan.webhook_secret_file.read_text().strip())
            known = Settings(webhook_secret=secret)
            with Client(plan.url) as client:
                await_ready(client, plan.base_models, lambda: True)
            for _ in range(2):
                # The second time its workers have changed adapters before.
                assert visit(plan.url, known, "127.0.0.1", tmp_path / "out", Console(quiet=True)) == 0
        finally:
            stack.stop(hurry=lambda: True)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [job["status"] for job in report["jobs"]].count("succeeded") == 23
    assert report["webhook_verified"] is True
    assert report["swaps"] <= 12
    assert report["faults"] == []
    assert report["not_checked"] == [NO_TORCH]
    assert len(list((tmp_path / "out" / "images").glob("*.png"))) == 23


def test_what_cannot_be_checked_is_said() -> None:
    assert unchecked("host.docker.internal", "whsec_x", has_torch=True) == []
    assert unchecked(None, "", has_torch=False) == [NO_HOST, NO_SECRET, NO_TORCH]


def test_a_stack_that_serves_other_models_is_refused(api: ApiServer, tmp_path: Path) -> None:
    api.answer = lambda asked: Reply(b'{"base_models": [{"name": "sdxl", "adapters": [], "live_workers": 1}]}')
    with pytest.raises(Misconfigured, match="serves no tiny-flux"):
        visit(api.url, Settings(), None, tmp_path, Console(quiet=True))


def test_nobody_waits_forever_for_a_worker(api: ApiServer) -> None:
    worker = {"name": "w", "base_model": "tiny-flux", "job": None, "resident": [], "recipe": "", "jobs": 0, "swaps": 0}
    states = ["idle", "starting", "starting"]
    api.answer = lambda asked: Reply(json.dumps({"workers": [worker | {"state": states.pop(0)}]}).encode())
    now_s = 0.0
    with Client(api.url) as client:
        watch = WorkerWatch(client, patience_s=60, clock=lambda: now_s)
        now_s = 100.0
        assert watch()
        now_s = 160.0
        assert watch()
        now_s = 161.0
        with pytest.raises(Unavailable, match="takes jobs of tiny-flux"):
            watch()


def test_a_host_for_webhooks_needs_an_address() -> None:
    done = CliRunner().invoke(app, ["demo", "--webhook-host", "here"])
    assert isinstance(done.exception, InvalidRequest)
