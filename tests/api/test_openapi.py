"""The OpenAPI document is complete, and its examples are what the code takes and gives."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from api.admit import admit
from api.main import create_app
from api.problems import Problem
from api.views import (
    AdaptersView,
    AdapterView,
    AliveView,
    BaseModelsView,
    JobsPage,
    PausedView,
    QueuesView,
    ReadyView,
    ReceiptKeysView,
    WorkersView,
)
from shared.adapters.inspection import Inspection
from shared.catalogue import read_catalogue
from shared.registry import RegisteredAdapter
from shared.request import JobRequest
from shared.settings import Settings
from shared.view import JobView
from tests.api.live import Live

METHODS = {"get", "put", "post", "delete", "head", "patch", "options"}
PROBLEM = "application/problem+json"
ROUTES = {
    ("post", "/v1/jobs"),
    ("get", "/v1/jobs"),
    ("get", "/v1/jobs/{job_id}"),
    ("post", "/v1/jobs/{job_id}/cancel"),
    ("get", "/v1/jobs/{job_id}/events"),
    ("get", "/v1/jobs/{job_id}/images/{number}"),
    ("head", "/v1/jobs/{job_id}/images/{number}"),
    ("get", "/v1/files/{key}"),
    ("head", "/v1/files/{key}"),
    ("get", "/v1/base-models"),
    ("post", "/v1/adapters"),
    ("get", "/v1/adapters"),
    ("post", "/v1/adapters/inspect"),
    ("get", "/v1/adapters/{name}"),
    ("delete", "/v1/adapters/{name}"),
    ("post", "/v1/adapters/{name}/pin"),
    ("delete", "/v1/adapters/{name}/pin"),
    ("get", "/v1/queues"),
    ("post", "/v1/queues/{base_model}/pause"),
    ("post", "/v1/queues/{base_model}/resume"),
    ("get", "/v1/receipt-keys"),
    ("get", "/v1/workers"),
    ("post", "/v1/workers/{name}/drain"),
    ("post", "/v1/workers/{name}/resume"),
    ("get", "/healthz"),
    ("get", "/readyz"),
    ("get", "/metrics"),
}

FORMS: dict[tuple[str, str], type[BaseModel]] = {
    ("post", "/v1/jobs"): JobView,
    ("get", "/v1/jobs"): JobsPage,
    ("get", "/v1/jobs/{job_id}"): JobView,
    ("post", "/v1/jobs/{job_id}/cancel"): JobView,
    ("post", "/v1/queues/{base_model}/pause"): PausedView,
    ("post", "/v1/queues/{base_model}/resume"): PausedView,
    ("post", "/v1/workers/{name}/drain"): PausedView,
    ("post", "/v1/workers/{name}/resume"): PausedView,
    ("get", "/v1/base-models"): BaseModelsView,
    ("post", "/v1/adapters"): AdapterView,
    ("get", "/v1/adapters"): AdaptersView,
    ("post", "/v1/adapters/inspect"): Inspection,
    ("get", "/v1/adapters/{name}"): AdapterView,
    ("post", "/v1/adapters/{name}/pin"): AdapterView,
    ("delete", "/v1/adapters/{name}/pin"): AdapterView,
    ("get", "/v1/queues"): QueuesView,
    ("get", "/v1/receipt-keys"): ReceiptKeysView,
    ("get", "/v1/workers"): WorkersView,
    ("get", "/healthz"): AliveView,
    ("get", "/readyz"): ReadyView,
}


def _document() -> dict[str, Any]:
    settings = Settings.model_validate({"redis_url": "redis://127.0.0.1:1/0", "data_folder": Path("unused")})
    return create_app(settings).openapi()


DOCUMENT = _document()
OPERATIONS = {
    (method, path): operation
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
    if method in METHODS
}


def _contents(operation: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for status, response in operation["responses"].items():
        for media, content in response.get("content", {}).items():
            yield status, media, content


def _values(content: dict[str, Any]) -> list[Any]:
    if "example" in content:
        return [content["example"]]
    return [example["value"] for example in content.get("examples", {}).values()]


def test_there_are_these_routes_and_no_others() -> None:
    assert set(OPERATIONS) == ROUTES


@pytest.mark.parametrize("where", sorted(ROUTES), ids=" ".join)
def test_every_operation_is_described(where: tuple[str, str]) -> None:
    operation = OPERATIONS[where]
    assert operation["summary"]
    assert operation["description"]
    assert set(operation["tags"]) <= {tag["name"] for tag in DOCUMENT["tags"]}
    assert operation["operationId"]
    for parameter in operation.get("parameters", []):
        assert parameter["description"]
    for status, response in operation["responses"].items():
        assert response["description"], status
        bodiless = status in ("204", "307")
        assert bool(response.get("content")) is not bodiless, status
    for status, media, content in _contents(operation):
        assert content.get("schema") or content.get("itemSchema"), (status, media)
        assert _values(content), (status, media)
        assert (media == PROBLEM) is (int(status) >= 400), (status, media)


@pytest.mark.parametrize("where", sorted(ROUTES), ids=" ".join)
def test_every_example_is_what_the_code_gives(where: tuple[str, str]) -> None:
    for status, media, content in _contents(OPERATIONS[where]):
        for value in _values(content):
            if media == PROBLEM:
                assert Problem.model_validate(value).status == int(status)
            elif media == "application/json":
                FORMS[where].model_validate(value)


def test_every_example_of_a_request_is_taken() -> None:
    content = OPERATIONS["post", "/v1/jobs"]["requestBody"]["content"]["application/json"]
    values = _values(content)
    assert len(values) == 3
    catalogue = read_catalogue()
    ranks = {"outline": 16, "night": 4, "mosaic": 8, "crayon": 12, "star": 24, "mocha": 8}
    assert set(ranks) == set(catalogue.base_models["tiny-flux"].builtin_adapters)
    registered = {
        name: RegisteredAdapter(name=name, base_model="tiny-flux", sha256=name, location=f"builtin:{name}", rank=rank)
        for name, rank in ranks.items()
    }
    for value in values:
        admit(JobRequest.model_validate(value), catalogue, registered, lambda path, field: path, lambda: 1)


def test_every_reference_leads_somewhere() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    text = json.dumps(DOCUMENT)
    named = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert named <= set(schemas)
    assert "HTTPValidationError" not in schemas
    assert "#/$defs/" not in text


def test_the_document_is_served(live: Live) -> None:
    assert live.http.get("/openapi.json").json()["info"]["title"] == "Hotslot"


def test_the_viewer_needs_no_other_server(live: Live) -> None:
    page = live.http.get("/docs").text
    files = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(files) >= 2
    for file in files:
        assert file.startswith("/"), file
        assert live.http.get(file).status_code == 200
