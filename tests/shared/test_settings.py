from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from shared.errors import Misconfigured
from shared.settings import Settings, settings, unknown_settings


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    settings.cache_clear()
    yield
    settings.cache_clear()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("REDIS_URL", "hunter2@localhost:6379", "write redis://HOST:PORT/DATABASE"),
        ("REDIS_URL", "hunter2", "write redis://HOST:PORT/DATABASE"),
        ("REDIS_URL", "unix:///hunter2", "write redis://HOST:PORT/DATABASE"),
        ("REDIS_URL", "redis://:hunter2@host:port/0", "write redis://HOST:PORT/DATABASE"),
        ("LEASE_MS", "hunter2", "input should be a valid integer"),
        ("LEASE_MS", "10", "greater than or equal to 500"),
        ("STORE", "hunter2", "'folder' or 's3'"),
        ("HF_ENDPOINT", "hunter2", "write https://HOST"),
        ("HF_ENDPOINT", "https://user:hunter2@hub", "write https://HOST"),
        ("ADAPTER_ALLOWED_NETWORKS", "hunter2", "write networks as in 10.0.0.0/8,fd00::/8"),
        ("WEBHOOK_ALLOWED_NETWORKS", "hunter2", "write networks as in 10.0.0.0/8,fd00::/8"),
        ("WEBHOOK_ALLOWED_NETWORKS", "10.0.0.0/8;hunter2", "write networks as in"),
    ],
)
def test_a_wrong_setting_is_named_and_its_value_is_not(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(f"HOTSLOT_{name}", value)
    with pytest.raises(Misconfigured) as refused:
        settings()
    assert refused.value.message.startswith(f"HOTSLOT_{name} is not valid: ")
    assert said in refused.value.message
    assert "hunter2" not in refused.value.message


def test_every_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTSLOT_LEASE_MS", "abc")
    monkeypatch.setenv("HOTSLOT_STORE", "tape")
    with pytest.raises(Misconfigured, match=r"HOTSLOT_STORE is not valid: .*\. HOTSLOT_LEASE_MS is not valid: "):
        settings()


@pytest.mark.parametrize("url", ["redis://localhost", "redis://:password@host:6379/2", "rediss://host"])
def test_urls_of_job_servers(url: str) -> None:
    assert Settings(redis_url=SecretStr(url)).redis_url.get_secret_value() == url


@pytest.mark.parametrize(
    ("value", "networks"),
    [("", []), ("10.0.0.0/8", ["10.0.0.0/8"]), ("127.0.0.0/8, ::1/128,", ["127.0.0.0/8", "::1/128"])],
)
def test_networks_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch, value: str, networks: list[str]) -> None:
    monkeypatch.setenv("HOTSLOT_WEBHOOK_ALLOWED_NETWORKS", value)
    assert [str(network) for network in settings().webhook_allowed_networks] == networks


def test_misspelt_names_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    before = unknown_settings().keys()
    monkeypatch.setenv("HOTSLOT_S3_BUKET", "mine")
    monkeypatch.setenv("HOTSLOT_MOON", "full")
    monkeypatch.setenv("hotslot_lease_ms", "1000")
    found = unknown_settings()
    assert found.keys() - before == {"HOTSLOT_S3_BUKET", "HOTSLOT_MOON"}
    assert found["HOTSLOT_S3_BUKET"] == "HOTSLOT_S3_BUKET is no setting; did you mean HOTSLOT_S3_BUCKET?"
    assert found["HOTSLOT_MOON"] == "HOTSLOT_MOON is no setting; it has no effect."


def test_buckets_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTSLOT_ADAPTER_S3_BUCKETS", "one, two,")
    assert Settings().adapter_s3_buckets == ("one", "two")


def test_the_hubs_own_variables_are_read_where_ours_are_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example/")
    monkeypatch.setenv("HF_TOKEN", "hunter2")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = Settings()
    assert (found.hf_endpoint, found.hf_offline) == ("https://mirror.example", True)
    assert found.hf_token is not None
    assert "hunter2" not in repr(found)
    monkeypatch.setenv("HOTSLOT_HF_ENDPOINT", "https://hub.example")
    monkeypatch.setenv("HOTSLOT_HF_OFFLINE", "false")
    assert (Settings().hf_endpoint, Settings().hf_offline) == ("https://hub.example", False)


def test_a_wrong_variable_of_the_hub_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "hunter2")
    with pytest.raises(Misconfigured, match="HOTSLOT_HF_ENDPOINT is not valid") as refused:
        settings()
    assert "hunter2" not in refused.value.message


def test_secrets_can_be_given_in_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "url").write_text("redis://:pass@host:6379/1\n")
    (tmp_path / "key").write_text(" id \n")
    monkeypatch.setenv("HOTSLOT_REDIS_URL_FILE", str(tmp_path / "url"))
    monkeypatch.setenv("hotslot_s3_access_key_id_file", str(tmp_path / "key"))
    monkeypatch.setenv("HOTSLOT_SIGNING_KEY_FILE", "")
    read = settings()
    assert read.redis_url.get_secret_value() == "redis://:pass@host:6379/1"
    assert read.s3_access_key_id is not None
    assert read.s3_access_key_id.get_secret_value() == "id"
    assert read.signing_key is None
    assert {"redis_url", "s3_access_key_id"} <= read.model_fields_set
    assert not {name for name in unknown_settings() if name.upper().endswith("_FILE")}


def test_a_secret_in_a_file_is_checked_like_any_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "url").write_text("hunter2")
    monkeypatch.setenv("HOTSLOT_REDIS_URL_FILE", str(tmp_path / "url"))
    with pytest.raises(Misconfigured) as refused:
        settings()
    assert (
        refused.value.message
        == "HOTSLOT_REDIS_URL is not valid: write redis://HOST:PORT/DATABASE, or rediss:// for TLS."
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "names {file}, which cannot be read: No such file or directory."),
        (b"\n", "names {file}, which is empty."),
        (b"\xff\xfe", "names {file}, which holds no text."),
    ],
)
def test_a_file_without_a_secret_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("HOTSLOT_WEBHOOK_SECRET_FILE", str(file))
    with pytest.raises(Misconfigured) as refused:
        settings()
    assert refused.value.message == f"HOTSLOT_WEBHOOK_SECRET_FILE {said.format(file=file)}"


def test_a_secret_is_given_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOTSLOT_WEBHOOK_SECRET_FILE", str(tmp_path / "secret"))
    monkeypatch.setenv("HOTSLOT_WEBHOOK_SECRET", "whsec_x")
    with pytest.raises(Misconfigured, match="HOTSLOT_WEBHOOK_SECRET and HOTSLOT_WEBHOOK_SECRET_FILE are both set"):
        settings()


def test_only_secrets_are_read_from_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTSLOT_LEASE_MS_FILE", "/nowhere")
    assert settings().lease_ms == 10_000
    assert "HOTSLOT_LEASE_MS_FILE" in unknown_settings()
