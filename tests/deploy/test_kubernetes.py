"""The manifests of deploy/kubernetes are what Kubernetes and KEDA take, and fit together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from cloudcoil.models.keda.v1alpha1 import ScaledObject

from shared.catalogue import read_catalogue
from shared.settings import PREFIX, SECRETS, Settings

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
KUBERNETES = "1.37"

MANIFESTS: list[dict[str, Any]] = [
    manifest for path in sorted(FOLDER.glob("*.yaml")) for manifest in yaml.safe_load_all(path.read_text())
]


def name_of(manifest: dict[str, Any]) -> str:
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [manifest for manifest in MANIFESTS if manifest["kind"] == kind]


@pytest.mark.parametrize("manifest", [one for one in MANIFESTS if one["kind"] != "ScaledObject"], ids=name_of)
def test_kubernetes_takes_it(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_keda_takes_the_scaled_object() -> None:
    (scaled,) = of_kind("ScaledObject")
    read = ScaledObject.model_validate(scaled)
    # Fields that KEDA does not know would be lost on this way.
    assert json.loads(read.model_dump_json(by_alias=True, exclude_none=True)) == scaled


def test_a_misspelt_field_is_refused() -> None:
    (api,) = [one for one in of_kind("Deployment") if one["metadata"]["name"] == "hotslot-api"]
    broken = json.loads(json.dumps(api))
    broken["spec"]["replica"] = broken["spec"].pop("replicas")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, KUBERNETES, strict=True)


@pytest.mark.parametrize("deployment", of_kind("Deployment"), ids=name_of)
def test_pods_have_few_rights(deployment: dict[str, Any]) -> None:
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip


def test_what_scales_is_there_and_its_base_model_is_served() -> None:
    (scaled,) = of_kind("ScaledObject")
    target = scaled["spec"]["scaleTargetRef"]["name"]
    (worker,) = [one for one in of_kind("Deployment") if one["metadata"]["name"] == target]
    assert "replicas" not in worker["spec"]
    (container,) = worker["spec"]["template"]["spec"]["containers"]
    base_model = container["command"][-1]
    (trigger,) = scaled["spec"]["triggers"]
    assert trigger["metadata"]["valueLocation"] == f'queues.#(base_model=="{base_model}").depth'
    assert base_model in read_catalogue(ROOT / "deploy" / "catalogue.gpu.toml").base_models


def test_every_setting_is_one() -> None:
    (config,) = of_kind("ConfigMap")
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    known |= {f"{PREFIX}{name.upper()}_FILE" for name in SECRETS}
    containers = [one for each in of_kind("Deployment") for one in each["spec"]["template"]["spec"]["containers"]]
    named = {variable["name"] for container in containers for variable in container.get("env", ())}
    assert {*config["data"], *named} <= known
