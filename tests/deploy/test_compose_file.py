"""What docker-compose.yml promises, as far as the file itself tells; ``tests/compose`` brings it up."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.catalogue import read_catalogue
from shared.settings import PREFIX, SECRETS, Settings
from worker.steward import KILL_AFTER_S

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
SERVICES: dict[str, Any] = yaml.safe_load(TEXT)["services"]
OWN = sorted(name for name, service in SERVICES.items() if "build" in service)
LASTING = sorted(name for name in OWN if name != "setup")
WORKERS = sorted(name for name in OWN if name.startswith("worker-"))


def seconds(text: str) -> float:
    number, unit = re.fullmatch(r"(\d+)(s|m)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"s": 1, "m": 60}[unit]


def test_the_services() -> None:
    profiles = {name: service.get("profiles") for name, service in SERVICES.items()}
    assert profiles == {
        "redis": None, "store": None, "setup": None, "api": None, "notifier": None, "worker-tiny-flux": None,
        "worker-flux-dev": ["gpu"], "worker-sdxl": ["gpu"],
    }  # fmt: skip


@pytest.mark.parametrize("name", OWN)
def test_our_own_have_few_rights(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["init"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert "user" not in service, "the image's own user is no root"


@pytest.mark.parametrize("name", LASTING)
def test_our_own_are_looked_at_and_start_after_what_they_need(name: str) -> None:
    service = SERVICES[name]
    assert service["healthcheck"]["test"][0] == "CMD"
    conditions = {needed: how["condition"] for needed, how in service["depends_on"].items()}
    # What runs once must be waited for by what stays, or `up --wait` takes its end for a failure.
    assert conditions == {
        "setup": "service_completed_successfully", "redis": "service_healthy", "store": "service_healthy",
    }  # fmt: skip


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_has_time_to_end_its_job(name: str) -> None:
    service = SERVICES[name]
    grace_s = float(service["environment"]["HOTSLOT_STOP_GRACE_S"])
    assert seconds(service["stop_grace_period"]) > grace_s + KILL_AFTER_S


def test_ports_are_published_on_this_machine_alone() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published.keys() == {"api", "store"}
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)


def test_no_secret_stands_in_the_environment() -> None:
    names = {f"{PREFIX}{name.upper()}" for name in SECRETS - {"redis_url"}}
    assert not [name for service in SERVICES.values() for name in service.get("environment", {}) if name in names]


def test_every_setting_is_one() -> None:
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    known |= {f"{PREFIX}{name.upper()}_FILE" for name in SECRETS}
    assert set(re.findall(r"\bHOTSLOT_\w+", TEXT)) <= known


def test_the_example_of_settings_has_each_that_the_file_reads() -> None:
    read = set(re.findall(r"\$\{(\w+)", TEXT)) | {"TORCH_INDEX", "PYTHON_IMAGE", "COMPILER"}
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert set(re.findall(r"^# (\w+)=", example, re.MULTILINE)) == read


def test_the_catalogue_for_gpus_serves_what_the_file_starts() -> None:
    served = read_catalogue(ROOT / "deploy" / "catalogue.gpu.toml").base_models
    assert {SERVICES[name]["command"][-1] for name in WORKERS} == served.keys()
    assert served["tiny-flux"] == read_catalogue().base_models["tiny-flux"]


def test_the_base_images_are_of_debian() -> None:
    for file in ("api/Dockerfile", "worker/Dockerfile"):
        text = (ROOT / file).read_text(encoding="utf-8")
        assert "alpine" not in text
        assert "# syntax" not in text
        assert "USER 10001:10001" in text


def test_workers_on_cards_can_compile() -> None:
    assert SERVICES["worker-flux-dev"]["build"]["args"]["COMPILER"] == "g++"
    assert "ARG COMPILER=\n" in (ROOT / "worker" / "Dockerfile").read_text(encoding="utf-8")
