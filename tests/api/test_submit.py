"""POST /v1/jobs against the real queue."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from api.submit import digest
from shared import keys
from shared.adapter_files import sha256_of
from shared.request import JobRequest
from tests.adapter_bytes import SKETCH, adapter_bytes, lora
from tests.api.live import BASE, Live, problem_of, until

BODY = {"prompt": "a fox", "base_model": BASE, "seed": 7}


def test_a_job_is_taken_and_can_be_read(live: Live) -> None:
    live.register("night")
    live.worker()
    response = live.http.post(
        "/v1/jobs", json={"prompt": "猫\n", "adapters": [{"source": "night", "scale": 0.5}], "metadata": {"a": "b"}}
    )
    assert response.status_code == 202
    job = response.json()
    assert job["status"] == "queued"
    assert job["position"] == 0
    assert job["base_model"] == BASE
    assert job["prompt"] == "猫\n"
    assert job["metadata"] == {"a": "b"}
    assert job["warnings"] == []
    assert [(a["source"], a["scale"]) for a in job["adapters"]] == [("night", 0.5)]
    assert response.headers["location"] == job["urls"]["self"] == f"{live.url}/v1/jobs/{job['id']}"
    assert job["urls"]["cancel"] == f"{live.url}/v1/jobs/{job['id']}/cancel"
    assert job["urls"]["events"] == f"{live.url}/v1/jobs/{job['id']}/events"
    assert live.get(job["id"]) == job


def test_a_ticket_is_rung(live: Live) -> None:
    live.submit()
    assert live.redis.llen(f"base.{BASE}") == 1


def test_positions_count_the_jobs_before(live: Live) -> None:
    assert [live.submit()["position"] for _ in range(3)] == [0, 1, 2]


def test_the_drawn_seed_can_be_read_exactly_by_javascript(live: Live) -> None:
    assert all(0 <= live.submit()["seed"] < 2**53 for _ in range(5))


def test_warnings_come_with_the_job(live: Live) -> None:
    job = live.submit(negative_prompt="fog")
    assert job["warnings"] == [
        f"negative_prompt has no effect on {BASE}.",
        f"No worker serves {BASE} right now; the job waits until one does.",
    ]
    live.worker()
    assert live.submit()["warnings"] == []


def test_a_builtin_adapter_before_its_worker_is_503_with_retry_after(live: Live) -> None:
    response = live.http.post("/v1/jobs", json={"prompt": "a fox", "adapters": [{"source": "night"}]})
    assert problem_of(response, 503, "adapter_not_ready")["retryable"] is True
    assert int(response.headers["retry-after"]) > 0


def test_a_refused_job_is_not_stored(live: Live) -> None:
    problem_of(live.http.post("/v1/jobs", json=BODY | {"width": 72}), 422, "invalid_request")
    assert live.redis.keys("hotslot:job:*") == []


def test_the_shortest_deadline_is_one(live: Live) -> None:
    job = live.submit(deadline_seconds=0.0001)
    until(lambda: live.get(job["id"])["status"] == "expired")


# --- files ----------------------------------------------------------------------------------------


def test_a_file_below_the_adapter_folder_is_pinned(live: Live) -> None:
    job = live.submit(adapters=[{"source": "file:mine/sketch.safetensors"}])
    assert job["adapters"][0]["sha256"] == hashlib.sha256(SKETCH).hexdigest()
    assert live.queue.get(job["id"]).spec.adapters[0].location == "file:mine/sketch.safetensors"


@pytest.mark.parametrize(
    "path",
    [
        "absent.safetensors",
        "../secret",
        "/etc/passwd",
        "mine",
        "",
        "mine/../../x",
        "a\0b",
        "x" * 1000,
        "mine/" + "y" * 300,
    ],
)
def test_other_paths_are_refused(live: Live, path: str) -> None:
    response = live.http.post("/v1/jobs", json=BODY | {"adapters": [{"source": f"file:{path}"}]})
    problem = problem_of(response, 422, "adapter_unknown")
    assert problem["field"] == "adapters[0].source"
    assert str(live.settings.adapter_folder) not in response.text


def test_a_file_is_read_once_while_it_does_not_change(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def counted(path: Path) -> str:
        read.append(path)
        return sha256_of(path)

    monkeypatch.setattr("shared.adapter_files.sha256_of", counted)
    assert live.settings.adapter_folder is not None
    other = adapter_bytes(lora(rank=5))
    (live.settings.adapter_folder / "once").write_bytes(other)
    for _ in range(2):
        job = live.submit(adapters=[{"source": "file:once"}])
        assert job["adapters"][0]["sha256"] == hashlib.sha256(other).hexdigest()
    assert len(read) == 1


def test_a_link_out_of_the_folder_is_refused(live: Live, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    assert live.settings.adapter_folder is not None
    link = live.settings.adapter_folder / "link"
    link.symlink_to(tmp_path / "secret")
    response = live.http.post("/v1/jobs", json=BODY | {"adapters": [{"source": "file:link"}]})
    link.unlink()
    problem_of(response, 422, "adapter_unknown")


# --- webhooks -------------------------------------------------------------------------------------


def test_a_webhook_is_kept(live: Live) -> None:
    job = live.submit(webhook={"url": "https://example.com/hook", "events": ["job.failed"]})
    webhook = live.queue.get(job["id"]).spec.webhook
    assert webhook is not None
    assert (webhook.url, webhook.events) == ("https://example.com/hook", ["job.failed"])
    assert job["webhook"] == {"origin": "https://example.com", "events": ["job.failed"]}


def test_a_deadline_is_shown(live: Live) -> None:
    job = live.submit(deadline_seconds=300)
    assert (job["deadline_seconds"], job["webhook"]) == (300, None)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/x",
        "http://10.1.2.3/",
        "http://169.254.169.254/latest",
        "http://[::ffff:127.0.0.1]/",
        "http://2130706433/",
    ],
)
def test_a_webhook_to_the_inside_is_refused(live: Live, url: str) -> None:
    response = live.http.post("/v1/jobs", json=BODY | {"webhook": {"url": url}})
    assert problem_of(response, 422, "address_refused")["field"] == "webhook.url"


def test_a_webhook_that_is_no_url_is_refused(live: Live) -> None:
    response = live.http.post("/v1/jobs", json=BODY | {"webhook": {"url": "gopher://example.com"}})
    assert problem_of(response, 422, "invalid_request")["field"] == "webhook.url"


# --- Idempotency-Key ------------------------------------------------------------------------------


def test_twenty_parallel_posts_with_one_key_make_one_job(live: Live) -> None:
    def post(_: int) -> tuple[int, str, str | None]:
        response = live.http.post("/v1/jobs", json=BODY, headers={"Idempotency-Key": "once"})
        return response.status_code, response.json()["id"], response.headers.get("idempotent-replayed")

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(post, range(20)))
    assert {status for status, _, _ in answers} == {202}
    assert len({job for _, job, _ in answers}) == 1
    assert sorted(str(replayed) for _, _, replayed in answers) == ["None"] + ["true"] * 19
    assert len(live.redis.keys("hotslot:job:*")) == 1
    assert live.queue.depth(BASE) == 1


def test_the_same_body_in_another_spelling_is_the_same(live: Live) -> None:
    key = {"Idempotency-Key": "once"}
    first = live.http.post("/v1/jobs", json=BODY, headers=key).json()
    again = live.http.post("/v1/jobs", json={"num_images": 1, "format": "png", **BODY}, headers=key)
    assert again.json()["id"] == first["id"]


def test_another_body_with_the_same_key_is_refused(live: Live) -> None:
    key = {"Idempotency-Key": "once"}
    live.http.post("/v1/jobs", json=BODY, headers=key)
    response = live.http.post("/v1/jobs", json=BODY | {"seed": 8}, headers=key)
    problem_of(response, 409, "idempotency_key_reused")
    assert live.queue.depth(BASE) == 1


def test_a_repeat_gives_the_job_though_its_adapter_is_gone(live: Live) -> None:
    live.register("mine")
    body, key = {"prompt": "a fox", "adapters": [{"source": "mine"}]}, {"Idempotency-Key": "once"}
    first = live.http.post("/v1/jobs", json=body, headers=key).json()
    live.redis.delete(keys.ADAPTERS())
    assert live.http.post("/v1/jobs", json=body, headers=key).json() == first
    problem_of(live.http.post("/v1/jobs", json=body), 422, "adapter_unknown")


def test_without_a_key_every_post_is_a_job(live: Live) -> None:
    assert live.submit()["id"] != live.submit()["id"]


@pytest.mark.parametrize("key", ["", "x" * 256, "caf\u00e9", "a\tb"])
def test_keys_that_are_not_taken(live: Live, key: str) -> None:
    response = live.http.post("/v1/jobs", json=BODY, headers={b"Idempotency-Key": key.encode("latin-1")})
    problem = problem_of(response, 422, "invalid_request")
    assert problem["field"] == "Idempotency-Key"
    assert "\\x20" not in problem["detail"]


def test_a_key_of_the_longest_length_is_taken(live: Live) -> None:
    assert live.http.post("/v1/jobs", json=BODY, headers={"Idempotency-Key": "~" * 255}).status_code == 202


def test_the_digest_tells_bodies_apart() -> None:
    def of(**body: object) -> str:
        return digest(JobRequest.model_validate(BODY | body))

    assert of() == of(num_images=1) == of(guidance_scale=None)
    assert of(guidance_scale=3) == of(guidance_scale=3.0)
    assert len({of(), of(seed=8), of(prompt="b"), of(metadata={"a": "b"}), of(guidance_scale=3)}) == 5
