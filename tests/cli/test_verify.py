from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from cli.main import main
from shared.job import Status
from shared.receipt import ReceiptSigner, new_receipt_key
from tests.cli.api_server import ApiServer, Asked, Reply, job_record
from tests.shared.test_receipt import KEYS, RECEIPT, SIGNER

IMAGE, ADAPTER = b"an image", b"an adapter"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    applied = RECEIPT.adapters[0].model_copy(update={"sha256": sha256(ADAPTER)})
    receipt = SIGNER.signed(RECEIPT.model_copy(update={"adapters": [applied], "images_sha256": [sha256(IMAGE)]}))
    (tmp_path / "receipt.json").write_text(receipt.model_dump_json())
    job = job_record(Status.QUEUED).model_dump(mode="json")
    (tmp_path / "job.json").write_text(json.dumps({**job, "receipt": receipt.model_dump(mode="json")}))
    (tmp_path / "image.png").write_bytes(IMAGE)
    (tmp_path / "a.safetensors").write_bytes(ADAPTER)
    (tmp_path / "keys").write_text(f"{ReceiptSigner(new_receipt_key()).public_key}\n{SIGNER.public_key}\n")
    return tmp_path


def verify(monkeypatch: pytest.MonkeyPatch, folder: Path, *words: str) -> int:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.argv", ["hotslot", "verify", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize("receipt", ["receipt.json", "job.json"])
@pytest.mark.parametrize("key", ["keys", SIGNER.public_key])
def test_what_belongs_together_is_proven(
    files: Path, receipt: str, key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(monkeypatch, files, receipt, "image.png", "a.safetensors", "--key", key) == 0
    said = capsys.readouterr().out
    assert f"signed with the key {SIGNER.key_id}" in said
    assert "image.png was made by this job, with exactly these adapters" in said


def test_the_keys_are_asked_for(files: Path, api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(asked: Asked) -> Reply:
        assert asked.path == "/v1/receipt-keys"
        keys = [{"id": key_id, "algorithm": "ed25519", "public_key": public} for key_id, public in KEYS.items()]
        return Reply(json.dumps({"keys": keys}).encode())

    api.answer = answer
    assert verify(monkeypatch, files, "receipt.json", "image.png", "--url", api.url) == 0


def test_what_does_not_belong_is_named(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "image.png").write_bytes(b"another image")
    (files / "b.safetensors").write_bytes(b"another adapter")
    words = ("receipt.json", "image.png", "a.safetensors", "b.safetensors", "--key", "keys")
    assert verify(monkeypatch, files, *words) == 1
    said = capsys.readouterr().out
    assert said.count("NOT PROVEN") == 2
    assert "b.safetensors is no adapter of this receipt" in said


def change(files: Path, **changes: Any) -> None:
    receipt = json.loads((files / "receipt.json").read_text())
    (files / "receipt.json").write_text(json.dumps(receipt | changes))


def test_an_altered_receipt_is_refused(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    change(files, recipe="another")
    assert verify(monkeypatch, files, "receipt.json", "image.png", "--key", "keys") == 1
    assert "was changed" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"receipt": null}', "[" * 100_000])
def test_what_is_no_receipt_is_refused(
    files: Path, content: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "receipt.json").write_text(content)
    assert verify(monkeypatch, files, "receipt.json", "image.png", "--key", "keys") == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("missing", ["receipt.json", "image.png", "a.safetensors"])
def test_a_missing_file_is_named(
    files: Path, missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / missing).unlink()
    assert verify(monkeypatch, files, "receipt.json", "image.png", "a.safetensors", "--key", "keys") == 1
    assert f"{missing} cannot be read" in capsys.readouterr().err
