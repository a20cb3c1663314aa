"""Images: the redirect, and the folder store's files."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi.testclient import TestClient

from api.main import create_app
from shared.settings import Settings
from tests.api.live import PNG, Live, problem_of


@pytest.fixture
def job(live: Live) -> dict[str, Any]:
    """A job with one image."""
    claimed = live.claim(live.submit()["id"])
    live.succeed(claimed)
    return live.get(claimed.id)


def _link(live: Live, job: dict[str, Any]) -> str:
    response = live.http.get(job["images"][0]["url"])
    assert response.status_code == 307
    link: str = response.headers["location"]
    return link


def test_the_stable_address_leads_to_the_bytes(live: Live, job: dict[str, Any]) -> None:
    assert job["images"][0]["url"] == f"{live.url}/v1/jobs/{job['id']}/images/0"
    response = live.http.get(job["images"][0]["url"], follow_redirects=True)
    assert response.content == PNG
    assert response.headers["content-type"] == "image/png"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "immutable" in response.headers["cache-control"]
    assert response.headers["content-length"] == str(len(PNG))


def test_the_redirect_is_not_kept(live: Live, job: dict[str, Any]) -> None:
    assert live.http.get(job["images"][0]["url"]).headers["cache-control"] == "no-store"


def test_head_looks_without_bytes(live: Live, job: dict[str, Any]) -> None:
    response = live.http.head(job["images"][0]["url"])
    assert response.status_code == 307
    file = live.http.head(response.headers["location"])
    assert (file.status_code, file.content) == (200, b"")
    assert file.headers["content-length"] == str(len(PNG))


@pytest.mark.parametrize("number", ["1", "99999999999999999999"])
def test_there_is_no_other_image(live: Live, job: dict[str, Any], number: str) -> None:
    problem_of(live.http.get(f"/v1/jobs/{job['id']}/images/{number}"), 404, "image_not_found")


@pytest.mark.parametrize("number", ["-1", "x", "0.5", ""])
def test_what_is_no_number_is_no_path(live: Live, job: dict[str, Any], number: str) -> None:
    problem_of(live.http.get(f"/v1/jobs/{job['id']}/images/{number}"), 404, "not_found")


def test_a_waiting_job_has_no_image_yet(live: Live) -> None:
    problem = problem_of(live.http.get(f"/v1/jobs/{live.submit()['id']}/images/0"), 404, "image_not_found")
    assert problem["detail"] == "There is no image 0; number of images that the job has now: 0."


def test_an_altered_link_is_refused(live: Live, job: dict[str, Any]) -> None:
    link = _link(live, job)
    asked = {name: values[0] for name, values in parse_qs(urlsplit(link).query).items()}
    path = urlsplit(link).path
    altered = [
        (path, asked | {"signature": "0" * 64}),
        (path, asked | {"signature": "猫"}),
        (path, asked | {"expires": str(int(asked["expires"]) + 1)}),
        (path, asked | {"expires": "soon"}),
        (path.replace("/1/", "/2/"), asked),
        ("/v1/files/../../etc/passwd", asked),
        ("/v1/files/%2e%2e/%2e%2e/etc/passwd", asked),
        ("/v1/files/a%00b", asked),
    ]
    for where, query in altered:
        response = live.http.get(where, params=query)
        assert response.status_code in (403, 404), (where, query)
        problem_of(response, response.status_code, response.json()["code"])
    assert live.http.get(path, params=asked).status_code == 200


def test_a_link_without_a_signature_is_refused(live: Live, job: dict[str, Any]) -> None:
    response = live.http.get(urlsplit(_link(live, job)).path)
    assert problem_of(response, 422, "invalid_request")["field"] == "expires"


def test_an_expired_link_is_refused(live: Live, job: dict[str, Any]) -> None:
    key = live.queue.get(job["id"]).result.images[0].key  # type: ignore[union-attr]
    link = live.services.store.link(key, -1)
    assert "expired" in problem_of(live.http.get(link), 403, "link_refused")["detail"]


def test_an_image_that_was_deleted_is_404(live: Live, job: dict[str, Any]) -> None:
    link = _link(live, job)
    live.services.store.delete(live.queue.get(job["id"]).result.images[0].key)  # type: ignore[union-attr]
    problem_of(live.http.get(link), 404, "image_not_found")


def test_a_range_is_answered_with_the_whole_file(live: Live, job: dict[str, Any]) -> None:
    for asked in ("bytes=0-3", "bytes=x", "bytes=99999-"):
        response = live.http.get(_link(live, job), headers={"Range": asked})
        assert (response.status_code, response.content) == (200, PNG)


def test_a_bucket_serves_its_own_files(live: Live, api_settings: Settings, job: dict[str, Any]) -> None:
    bucket = {
        "store": "s3",
        "s3_endpoint_url": "http://127.0.0.1:9",
        "s3_public_endpoint_url": "https://images.example.com",
        "s3_access_key_id": "key",
        "s3_secret_access_key": "secret",
    }
    settings = Settings.model_validate(api_settings.model_dump() | bucket)
    with TestClient(create_app(settings), base_url=live.url) as client:
        problem_of(client.get("/v1/files/jobs/x/1/0.png?expires=1&signature=x"), 404, "not_found")
        response = client.get(f"/v1/jobs/{job['id']}/images/0", follow_redirects=False)
        assert response.status_code == 307
        assert urlsplit(response.headers["location"]).netloc == "images.example.com"
