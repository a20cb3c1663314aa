from __future__ import annotations

import json
import stat
from pathlib import Path

from typer.testing import CliRunner

from cli.deployment_secrets import draw_secrets
from cli.main import app
from shared.receipt import signer_of
from shared.settings import Settings
from shared.signature import secret_of

FILES = ["receipt-key", "s3-access-key-id", "s3-identities.json", "s3-secret-access-key", "webhook-secret"]


def test_what_is_drawn_is_what_the_processes_need(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    assert draw_secrets(folder) == FILES
    held = {name: (folder / name).read_text().strip() for name in FILES}
    assert secret_of(Settings.model_validate({"webhook_secret": held["webhook-secret"]})) == held["webhook-secret"]
    assert signer_of(Settings.model_validate({"receipt_key": held["receipt-key"]}))
    (identity,) = json.loads(held["s3-identities.json"])["identities"]
    assert identity["credentials"] == [
        {"accessKey": held["s3-access-key-id"], "secretKey": held["s3-secret-access-key"]}
    ]
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in FILES} == {0o600}
    assert draw_secrets(tmp_path / "others") == FILES
    assert (tmp_path / "others" / "webhook-secret").read_text().strip() != held["webhook-secret"]


def test_they_are_drawn_once(tmp_path: Path) -> None:
    (tmp_path / "webhook-secret").write_text("whsec_mine\n")
    first = CliRunner().invoke(app, ["secrets", str(tmp_path)])
    before = {file.name: file.read_text() for file in tmp_path.iterdir()}
    again = CliRunner().invoke(app, ["secrets", str(tmp_path)])
    assert first.exit_code == again.exit_code == 0
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == before
    assert before["webhook-secret"] == "whsec_mine\n"
    assert not any(value.strip() in first.output for value in before.values())


def test_a_folder_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert CliRunner().invoke(app, ["secrets", str(tmp_path / "file")]).exit_code == 2
