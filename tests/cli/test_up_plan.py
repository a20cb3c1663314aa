from __future__ import annotations

import json
import shlex
import stat
from pathlib import Path

import pytest

from cli.stack import StackPlan, check_port, decide, program_arguments
from cli.up import plan_up, sample, welcome
from shared.catalogue import read_catalogue
from shared.errors import Misconfigured
from shared.request import JobRequest
from shared.settings import Settings
from shared.signature import secret_of
from tests.cli.api_server import ApiServer


def plan_in(folder: Path, **settings: object) -> StackPlan:
    return plan_up(Settings.model_validate(settings), 8123, folder, read_catalogue())


def test_programs_of_a_stack(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    assert plan.names == ("api", "worker-tiny-flux", "notifier")
    assert [program_arguments(name, plan) for name in plan.names] == [
        ("api", "--host", "127.0.0.1", "--port", "8123"),
        ("worker", "--base-model", "tiny-flux"),
        ("worker", "--notify"),
    ]


def test_what_the_stack_decides_is_what_the_programs_accept(tmp_path: Path) -> None:
    decided = decide(plan_in(tmp_path / "data"))
    settings = Settings.model_validate(decided)
    assert settings.data_folder == tmp_path / "data"
    assert settings.adapter_folder == tmp_path / "data" / "adapters"
    assert settings.adapter_folder.is_dir()
    assert settings.public_url == "http://127.0.0.1:8123"
    assert [str(network) for network in settings.webhook_allowed_networks] == ["127.0.0.0/8", "::1/128"]
    assert settings.signing_key is not None
    assert len(settings.signing_key.get_secret_value()) >= 32
    assert secret_of(settings) == (tmp_path / "data" / "secrets" / "webhook-secret").read_text().strip()
    assert decide(plan_in(tmp_path / "data")) == decided


def test_secrets_of_the_user_are_not_replaced(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, signing_key="mine", webhook_secret="whsec_mine")
    decided = decide(plan)
    assert not {"signing_key", "webhook_secret"} & decided.keys()
    assert not (tmp_path / "secrets").exists()
    assert plan.webhook_secret_file is None


def test_the_data_folder_is_the_users_own(tmp_path: Path) -> None:
    decide(plan_in(tmp_path))
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700


def test_a_data_folder_that_cannot_be_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Misconfigured, match="data folder"):
        decide(plan_in(tmp_path / "file"))


def test_the_sample_is_a_request_that_is_served(tmp_path: Path) -> None:
    body, adapter = sample(read_catalogue())
    request = JobRequest.model_validate(body)
    assert [one.source for one in request.adapters] == [adapter] == ["outline"]
    lines = welcome(plan_in(tmp_path), read_catalogue())
    (curl,) = [line for line in lines if "curl" in line]
    assert json.loads(shlex.split(curl)[-1]) == body
    (command,) = [line for line in lines if "hotslot submit" in line]
    assert "--url http://127.0.0.1:8123" in command
    assert any(str(tmp_path / "secrets" / "webhook-secret") in line for line in lines)
    assert any("127.0.0.0/8" in line for line in lines)


def test_the_welcome_keeps_quiet_about_what_the_user_decided(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, webhook_secret="whsec_x", webhook_allowed_networks=["10.0.0.0/8"], adapter_folder="/a")
    text = "\n".join(welcome(plan, read_catalogue()))
    assert "secret" not in text
    assert "this machine itself" not in text
    assert "file:PATH" not in text


def test_settings_from_the_environment_count_as_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTSLOT_REDIS_URL", "redis://elsewhere")
    monkeypatch.setenv("hotslot_store", "folder")
    plan = plan_up(Settings(), 8123, None, read_catalogue())
    assert {"redis_url", "store"} <= plan.given
    assert "public_url" not in plan.given


def test_names_that_are_no_setting_are_not_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTSLOT_S3_BUKET", "mine")
    monkeypatch.setenv("HOTSLOT_S3_BUCKET", "mine")
    environment = plan_in(tmp_path).environment
    assert "HOTSLOT_S3_BUCKET" in environment
    assert "HOTSLOT_S3_BUKET" not in environment


def test_a_taken_port_is_refused(api: ApiServer) -> None:
    with pytest.raises(Misconfigured, match=f"Port {api.server_port} cannot be used.*--port"):
        check_port(api.server_port)
