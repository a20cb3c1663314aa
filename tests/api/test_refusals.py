"""Every error is a problem that names the field, what was given, and what is allowed."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator, MutableMapping
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from fastapi.testclient import TestClient

from api.main import create_app
from api.middleware import LARGEST_BODY_BYTES
from shared.settings import Settings
from tests.api.live import BASE, Live, problem_of

BODY = {"prompt": "a fox", "base_model": BASE}


def _raw(live: Live, text: str | bytes) -> httpx2.Response:
    return live.http.post("/v1/jobs", content=text, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({"steps": 1.5}, "steps", "steps: 1.5 is not allowed; tiny-flux takes whole numbers from 1 to 100."),
        ({"steps": "4"}, "steps", 'steps: "4" is not allowed; tiny-flux takes whole numbers from 1 to 100.'),
        ({"steps": True}, "steps", "steps: true is not allowed"),
        ({"width": "64"}, "width", "multiples of 32 from 32 to 256"),
        ({"height": 64.0}, "height", "multiples of 32 from 32 to 256"),
        ({"guidance_scale": "3"}, "guidance_scale", "numbers from 0 to 20"),
        ({"seed": 2**64}, "seed", f"{2**64} is not allowed; allowed are whole numbers from 0 to {2**63 - 1}."),
        ({"seed": -1}, "seed", "whole numbers from 0 to"),
        ({"num_images": 5}, "num_images", "num_images: 5 is not allowed; allowed are whole numbers from 1 to 4."),
        ({"num_images": 0}, "num_images", "whole numbers from 1 to 4"),
        ({"format": "gif"}, "format", "'png', 'jpeg' or 'webp'"),
        ({"priority": "urgent"}, "priority", "'low', 'normal' or 'high'"),
        ({"deadline_seconds": 0}, "deadline_seconds", "numbers from above 0 to 2592000"),
        ({"prompt": ""}, "prompt", "at least 1 character"),
        ({"prompt": "x" * 4001}, "prompt", "at most 4000 characters"),
        ({"prompt": None}, "prompt", "null is not allowed"),
        ({"adapters": [{"source": "a", "scale": 11}]}, "adapters[0].scale", "11 is not allowed; allowed are numbers"),
        ({"adapters": [{"source": "a", "scale": -11}]}, "adapters[0].scale", "numbers from -10 to 10."),
        ({"adapters": [{"scale": 1}]}, "adapters[0].source", "is required"),
        ({"adapters": [{"source": "a"}] * 5}, "adapters", "a list of 5 is not allowed; at most 4 items are taken."),
        ({"adapters": "night"}, "adapters", '"night" is not allowed'),
        ({"webhook": {"url": "http://x", "events": ["job.done"]}}, "webhook.events[0]", "'job.succeeded'"),
        ({"metadata": {"a": 1}}, "metadata.a", "should be a valid string"),
        ({"metadata": {str(n): "" for n in range(17)}}, "metadata", "at most 16 items"),
        ({"stepps": 4}, "stepps", "did you mean steps? allowed are: prompt, negative_prompt, base_model,"),
        ({"adapters": [{"source": "a", "weight": 1}]}, "adapters[0].weight", "allowed are: source, scale."),
        ({"webhook": {"uri": "http://x"}}, "webhook.uri", "did you mean url? allowed are: url, events."),
        ({"metadata": {"x" * 65: ""}}, "metadata", "at most 64 characters"),
        ({"metadata": []}, "metadata", "a list of 0 is not allowed; an object is required."),
        ({"webhook": 1}, "webhook", "1 is not allowed; an object is required."),
        ({"webhook": {"url": "http://x", "events": []}}, "webhook.events", "1 or more items are taken."),
        ({"webhook": {"url": "x"}}, "webhook.url", "webhook.url: The URL must start with http:// or https://."),
        ({"webhook": {"url": "http://10.0.0.1"}}, "webhook.url", "webhook.url: The host '10.0.0.1' leads to"),
        ({"base_model": "x" * 100_000}, "base_model", "at most 64 characters"),
        ({"base_model": "sdxl"}, "base_model", "'sdxl' is not served here; choose one of: tiny-flux."),
        ({"width": 72, "height": 72}, "width", "width: 72 is not allowed; tiny-flux takes multiples of 32 from 32"),
    ],
)  # fmt: skip
def test_a_faulty_field_is_named(live: Live, body: dict[str, Any], field: str, said: str) -> None:
    response = live.http.post("/v1/jobs", json=BODY | body)
    assert response.status_code == 422
    problem = problem_of(response, 422, response.json()["code"])
    assert problem["field"] == field
    assert said in problem["detail"]
    assert len(problem["detail"]) < 500


def test_a_missing_prompt_is_named(live: Live) -> None:
    problem = problem_of(live.http.post("/v1/jobs", json={"base_model": BASE}), 422, "invalid_request")
    assert problem["detail"] == "prompt: is required."


def test_every_fault_is_listed_and_a_misspelt_field_comes_first(live: Live) -> None:
    problem = problem_of(live.http.post("/v1/jobs", json={"promt": "a fox", "steps": "4"}), 422, "invalid_request")
    assert problem["field"] == "promt"
    assert "did you mean prompt?" in problem["detail"]
    assert "(2 more in errors.)" in problem["detail"]
    assert {fault["field"] for fault in problem["errors"]} == {"promt", "prompt", "steps"}


def test_every_number_out_of_range_is_listed(live: Live) -> None:
    problem = problem_of(live.http.post("/v1/jobs", json=BODY | {"width": 72, "steps": 0}), 422, "invalid_request")
    assert problem["field"] == "width"
    assert "(1 more in errors.)" in problem["detail"]
    assert [fault["field"] for fault in problem["errors"]] == ["width", "steps"]


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ["guidance_scale", "steps", "seed"])
def test_numbers_that_are_not_finite_are_refused(live: Live, literal: str, field: str) -> None:
    response = _raw(live, f'{{"prompt": "a fox", "base_model": "{BASE}", "{field}": {literal}}}')
    assert problem_of(response, 422, "invalid_request")["field"] == field


@pytest.mark.parametrize(
    "text", ["", "{", '{"prompt": "a fox",}', "prompt=a", b"\xff\xfe", b'{"prompt": "\xff"}', "[" * 100_000, "1" * 5000]
)
def test_a_body_that_is_not_json_is_refused(live: Live, text: str | bytes) -> None:
    response = _raw(live, text)
    assert response.status_code in (400, 422)
    problem_of(response, response.status_code, response.json()["code"])


@pytest.mark.parametrize("text", ["[]", "null", "3", '"a fox"', "true"])
def test_a_body_that_is_not_an_object_is_refused(live: Live, text: str) -> None:
    problem = problem_of(_raw(live, text), 422, "invalid_request")
    assert problem["field"] == "body"
    assert "a JSON object is required" in problem["detail"]


def test_a_form_is_refused_with_the_header_to_send(live: Live) -> None:
    problem = problem_of(live.http.post("/v1/jobs", data={"prompt": "a fox"}), 422, "invalid_request")
    assert "Content-Type: application/json" in problem["detail"]


@pytest.mark.parametrize(
    "text",
    [
        '{"prompt": "\\ud800"}',
        '{"prompt": "a fox", "base_model": "tiny-flux", "metadata": {"\\ud800": "b"}}',
        '{"prompt": "a fox", "\\ud800": 1}',
        '{"prompt": "a fox", "base_model": "\\ud800"}',
    ],
)
def test_half_a_surrogate_pair_is_refused(live: Live, text: str) -> None:
    problem_of(_raw(live, text), 422, "invalid_request")


@pytest.mark.parametrize("times", [1, 30])
def test_a_large_body_is_refused_by_its_length(live: Live, times: int) -> None:
    response = _raw(live, json.dumps(BODY | {"metadata": {"a": "x" * LARGEST_BODY_BYTES * times}}))
    assert str(LARGEST_BODY_BYTES) in problem_of(response, 413, "body_too_large")["detail"]
    assert live.queue.depth(BASE) == 0


@pytest.mark.parametrize("times", [1, 30])
def test_a_large_body_is_refused_without_a_length(live: Live, times: int) -> None:
    def pieces() -> Iterator[bytes]:
        yield json.dumps(BODY).encode()
        for _ in range(LARGEST_BODY_BYTES * times // 1024):
            yield b" " * 1024

    response = live.http.post("/v1/jobs", content=pieces(), headers={"Content-Type": "application/json"})
    problem_of(response, 413, "body_too_large")
    assert live.queue.depth(BASE) == 0


@pytest.mark.parametrize("announced", [True, False])
def test_a_large_body_is_read_to_its_end_before_the_answer(api_settings: Settings, announced: bool) -> None:
    """Else the connection closes under a caller that still sends, and takes the answer away."""
    pieces = 8
    left = pieces
    sent_when_left: list[int] = []

    async def receive() -> dict[str, Any]:
        nonlocal left
        left -= 1
        return {"type": "http.request", "body": b" " * LARGEST_BODY_BYTES, "more_body": left > 0}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent_when_left.append(left)

    headers = [(b"content-type", b"application/json")]
    if announced:
        headers.append((b"content-length", str(pieces * LARGEST_BODY_BYTES).encode()))
    scope = {"type": "http", "method": "POST", "path": "/v1/jobs", "query_string": b"", "headers": headers}
    asyncio.run(create_app(api_settings)(scope, receive, send))
    assert sent_when_left == [0, 0]


def test_a_large_body_is_refused_before_it_is_sent(live: Live) -> None:
    """By hand, because the client at hand does not ask first."""
    head = (
        "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {10 * LARGEST_BODY_BYTES}\r\nExpect: 100-continue\r\n\r\n"
    )
    address = urlsplit(live.url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        connection.sendall(head.encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"body_too_large" in answer


def test_a_body_of_the_largest_size_is_read(live: Live) -> None:
    text = json.dumps(BODY)
    assert _raw(live, text + " " * (LARGEST_BODY_BYTES - len(text))).status_code == 202


def test_an_unknown_path(live: Live) -> None:
    problem_of(live.http.get("/v1/nothing"), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/jobs", {"GET", "POST"}),
        ("DELETE", "/v1/jobs/01KJ9QZ7W5V0T3N8M2C4X6B1AD", {"GET"}),
        ("GET", "/v1/jobs/01KJ9QZ7W5V0T3N8M2C4X6B1AD/cancel", {"POST"}),
        ("POST", "/v1/jobs/01KJ9QZ7W5V0T3N8M2C4X6B1AD/images/0", {"GET", "HEAD"}),
        ("POST", "/v1/queues", {"GET"}),
    ],
)
def test_a_method_that_is_not_allowed(live: Live, method: str, path: str, allowed: set[str]) -> None:
    response = live.http.request(method, path)
    problem_of(response, 405, "method_not_allowed")
    assert set(response.headers["allow"].split(", ")) == allowed


def test_what_was_not_foreseen_is_500_without_a_stack(api_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    app = create_app(api_settings)

    def fail(*_: object) -> None:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr(app.state.services.registry, "looked_up", fail)
    with TestClient(app, raise_server_exceptions=False) as client:
        response = client.post("/v1/jobs", json=BODY)
    problem_of(response, 500, "internal_error")
    assert "hunter2" not in response.text
    assert "Traceback" not in response.text


def test_no_webhook_without_a_secret(api_settings: Settings) -> None:
    app = create_app(api_settings.model_copy(update={"webhook_secret": None}))
    with TestClient(app) as client:
        response = client.post("/v1/jobs", json=BODY | {"webhook": {"url": "https://example.com"}})
    problem = problem_of(response, 503, "webhooks_disabled")
    assert problem["retryable"] is False
    assert "retry-after" not in response.headers
