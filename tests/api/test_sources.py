"""Adapters from elsewhere at submit: pinned, proven, refused; a real hub, web server and job server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest

from shared.embedded import EmbeddedServer
from shared.registry import RegisteredAdapter, Registry
from shared.settings import Settings
from shared.sources.identity import Identity
from tests.adapter_bytes import SKETCH
from tests.api.live import BASE, Live, problem_of, serving
from tests.hub_server import HubServer, running_hub
from tests.source_server import SourceServer, running

FILE = "a.safetensors"
BODY = SKETCH


@pytest.fixture(scope="module")
def hub() -> Iterator[HubServer]:
    with running_hub() as hub:
        yield hub


@pytest.fixture(scope="module")
def server() -> Iterator[SourceServer]:
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def _served(api_settings: Settings, hub: HubServer) -> Iterator[Live]:
    told: dict[str, Any] = {"hf_endpoint": hub.url, "hf_token": None, "adapter_allowed_networks": "127.0.0.1/32"}
    settings = Settings.model_validate(api_settings.model_dump() | told)
    with serving(settings) as live:
        yield live


@pytest.fixture
def live(_served: Live, valkey: EmbeddedServer) -> Live:
    assert valkey.ask("FLUSHALL") == b"+OK"
    return _served


def post(live: Live, *sources: str) -> Any:
    adapters = [{"source": source} for source in sources]
    return live.http.post("/v1/jobs", json={"prompt": "a fox", "base_model": BASE, "adapters": adapters})


def test_a_hub_adapter_is_pinned_to_its_commit(live: Live, hub: HubServer) -> None:
    repository = hub.repository("owner/repo")
    commit = repository.commit({FILE: BODY})
    job = live.submit(adapters=[{"source": "hf:owner/repo"}])
    assert job["adapters"] == [
        {"source": "hf:owner/repo", "scale": 1.0, "sha256": sha256(BODY).hexdigest(), "revision": commit}
    ]
    repository.commit({FILE: SKETCH[:-1] + b"\2"})
    assert live.queue.get(job["id"]).spec.adapters[0].location == f"hf:owner/repo@{commit}#{FILE}"
    later = live.submit(adapters=[{"source": "hf:owner/repo"}])
    assert live.queue.get(later["id"]).group != live.queue.get(job["id"]).group


def test_several_files_are_listed(live: Live, hub: HubServer) -> None:
    hub.repository("owner/several").commit({"a.safetensors": BODY, "b.safetensors": BODY})
    problem = problem_of(post(live, "hf:owner/several"), 422, "adapter_ambiguous")
    assert "a.safetensors, b.safetensors" in problem["detail"]
    assert problem["field"] == "adapters[0].source"


def test_a_web_adapter_is_pinned_to_its_version_and_its_query_stays_inside(live: Live, server: SourceServer) -> None:
    url = server.serve("/a", BODY) + "?X-Amz-Signature=hunter2"
    job = live.submit(adapters=[{"source": url}])
    assert job["adapters"] == [
        {"source": f"{server.url}/a?…", "scale": 1.0, "sha256": None, "revision": 'etag:"v1"'}
    ]  # fmt: skip
    pinned = live.queue.get(job["id"]).spec.adapters[0]
    assert pinned.location == url
    assert live.queue.get(job["id"]).group == pinned.identity[:16] == Identity(url, 'etag:"v1"', None).key[:16]
    said = [live.http.get(f"/v1/jobs/{job['id']}"), live.http.get("/v1/jobs"), live.http.get("/v1/queues")]
    said += [post(live, url, url), post(live, url + "x" * 5000), post(live, f"{server.url}/absent?X=hunter2")]
    assert [one.status_code for one in said] == [200, 200, 200, 422, 422, 422]
    assert "hunter2" not in "".join(one.text for one in said)


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("https://169.254.169.254/latest", "address_refused"), ("https://10.0.0.1/a", "address_refused"),
        ("hf:owner", "invalid_request"), ("s3://closed-bucket/key", "adapter_unknown"),
        ("ftp://x/y", "adapter_unknown"), ("hf:owner/absent", "adapter_unknown"),
    ],
)  # fmt: skip
def test_sources_that_are_refused(live: Live, source: str, code: str) -> None:
    assert problem_of(post(live, source), 422, code)["field"] == "adapters[0].source"
    assert live.redis.keys("hotslot:job:*") == []


def test_a_source_that_hangs_is_a_503_that_passes(
    live: Live, server: SourceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live.services.pins, "_budget_s", 0.2)
    slow = server.serve("/slow", BODY, head_pause_s=30)
    server.serve("/quick", BODY)
    began_s = time.monotonic()
    response = post(live, f"{server.url}/quick", slow)
    assert problem_of(response, 503, "adapter_not_ready")["retryable"] is True
    assert int(response.headers["retry-after"]) > 0
    assert time.monotonic() - began_s < 5


def test_a_right_that_is_taken_back_is_noticed_at_each_admission(live: Live, server: SourceServer) -> None:
    url = server.serve("/private", BODY)
    live.submit(adapters=[{"source": url}])
    server.files["/private"].status = 403
    problem_of(post(live, url), 422, "adapter_forbidden")


def test_a_registered_name_is_proven_anew_too(live: Live, server: SourceServer) -> None:
    url = server.serve("/named", BODY)
    registered = RegisteredAdapter(
        name="sketch", base_model=BASE, sha256="0" * 64, location=url, revision='etag:"v1"', rank=4
    )
    Registry(live.redis).put(registered)
    job = live.submit(adapters=[{"source": "sketch"}])
    assert (job["adapters"][0]["source"], job["adapters"][0]["revision"]) == ("sketch", 'etag:"v1"')
    server.serve("/named", BODY, headers={"ETag": '"v2"'})
    assert "register it again" in problem_of(post(live, "sketch"), 409, "adapter_changed")["detail"]
    server.files["/named"].status = 403
    problem_of(post(live, "sketch"), 422, "adapter_forbidden")


def test_a_request_that_is_refused_anyway_asks_no_source(live: Live, server: SourceServer) -> None:
    server.asked.clear()
    url = server.serve("/a", BODY)
    body = {"prompt": "a fox", "base_model": BASE, "width": 72, "adapters": [{"source": url}]}
    problem_of(live.http.post("/v1/jobs", json=body), 422, "invalid_request")
    assert server.asked == []
