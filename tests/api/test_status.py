"""Base models, queues, workers, health."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from api.main import create_app
from api.readiness import Readiness
from shared import keys
from shared.errors import StoreUnavailable
from shared.ids import new_job_id
from shared.job import RECORD_VERSION, Job
from shared.presence import Presence
from shared.settings import Settings
from tests.api.live import BASE, Live, problem_of
from tests.shared.jobs import spec


def _get(live: Live, path: str) -> Any:
    response = live.http.get(path)
    assert response.status_code == 200, response.text
    return response.json()


def test_base_models_say_what_is_served(live: Live) -> None:
    live.register("mosaic", "night")
    live.register("foreign", base_model="other")
    live.worker()
    live.worker("w2", "stopping")
    (served,) = _get(live, "/v1/base-models")["base_models"]
    assert served["name"] == BASE
    assert served["adapters"] == ["mosaic", "night"]
    assert served["live_workers"] == 1
    assert served["largest_rank"] == 32
    assert served["sizes"]["multiple_of"] == 32
    assert served["sampling"]["default_steps"] == 8


def test_an_empty_queue(live: Live) -> None:
    (queue,) = _get(live, "/v1/queues")["queues"]
    assert queue == {
        "base_model": BASE,
        "depth": 0,
        "groups": [],
        "oldest_wait_ms": None,
        "running": 0,
        "live_workers": 0,
        "paused": False,
        "warning": f"No worker serves {BASE} right now.",
        "claims": 0,
        "swaps": 0,
        "overtaken_max": 0,
    }


def test_jobs_of_a_base_model_that_was_taken_out_are_seen_and_can_be_cancelled(live: Live) -> None:
    job_id = live.queue.submit(new_job_id(), spec(base_model="gone"))
    served, gone = _get(live, "/v1/queues")["queues"]
    assert (served["base_model"], gone["base_model"], gone["depth"]) == (BASE, "gone", 1)
    assert "not in the catalogue any more" in gone["warning"]
    assert live.http.get(f"/v1/jobs/{job_id}").json()["status"] == "queued"
    assert live.http.post(f"/v1/jobs/{job_id}/cancel").json()["status"] == "cancelled"
    assert [queue["base_model"] for queue in _get(live, "/v1/queues")["queues"]] == [BASE]


def test_a_paused_queue_hands_out_nothing_and_takes_jobs(live: Live) -> None:
    live.worker()
    assert live.http.post(f"/v1/queues/{BASE}/pause").json() == {"paused": True}
    job = live.submit()
    assert live.queue.claim(BASE, "none", "w1") == "empty"
    (queue,) = _get(live, "/v1/queues")["queues"]
    assert (queue["depth"], queue["paused"]) == (1, True)
    assert "is paused" in queue["warning"]
    assert live.http.post(f"/v1/queues/{BASE}/resume").json() == {"paused": False}
    assert live.claim(job["id"]).id == job["id"]
    assert problem_of(live.http.post("/v1/queues/nope/pause"), 422, "base_model_unknown")


def test_a_drained_worker_ends_its_job_and_gets_no_other(live: Live) -> None:
    live.worker("w1")
    live.worker("w2")
    running, waiting = live.claim(live.submit()["id"]), live.submit()
    assert live.http.post("/v1/workers/w1/drain").json() == {"paused": True}
    assert [worker["drained"] for worker in _get(live, "/v1/workers")["workers"]] == [True, False]
    assert live.queue.progress(running.id, running.attempt, 1, 4) == "ok"
    assert live.queue.claim(BASE, "none", "w1") == "empty"
    taken = live.queue.claim(BASE, "none", "w2")
    assert isinstance(taken, Job)
    assert taken.id == waiting["id"]
    last = live.submit()
    assert live.http.post("/v1/workers/w1/resume").json() == {"paused": False}
    assert live.claim(last["id"]).id == last["id"]
    assert problem_of(live.http.post("/v1/workers/nobody/drain"), 404, "worker_not_found")


def test_a_queue_says_why_nobody_can_serve_its_jobs(live: Live) -> None:
    def warning() -> str:
        (queue,) = _get(live, "/v1/queues")["queues"]
        return queue["warning"] or ""

    live.worker("w1")
    live.worker("w2")
    job_id = live.submit()["id"]
    for name in ("w1", "w2"):
        assert warning() == ""
        live.http.post(f"/v1/workers/{name}/drain")
    assert "drained" in warning()
    live.http.post("/v1/workers/w1/resume")
    assert warning() == ""
    live.redis.hset(keys.JOB(job_id), "version", RECORD_VERSION + 1)
    assert "needs a newer worker" in warning()
    Presence(live.redis).report("w1", record_version=RECORD_VERSION + 1)
    assert warning() == ""


def test_a_queue_by_adapters(live: Live) -> None:
    live.register("night", "mosaic", rank=4)
    live.worker()
    night, both = [{"source": "night"}], [{"source": "mosaic", "scale": 0.5}, {"source": "night"}]
    first = live.submit(adapters=night)
    live.submit(adapters=both)
    live.submit(adapters=both[::-1])
    live.submit()
    live.submit(adapters=night)
    live.claim(first["id"])
    live.queue.count_swap(BASE)
    (queue,) = _get(live, "/v1/queues")["queues"]
    assert (queue["depth"], queue["running"], queue["live_workers"], queue["warning"]) == (4, 1, 1, None)
    assert [(group["adapters"], group["waiting"]) for group in queue["groups"]] == [
        (["mosaic", "night"], 2),
        ([], 1),
        (["night"], 1),
    ]
    waits = [group["oldest_wait_ms"] for group in queue["groups"]]
    assert waits == sorted(waits, reverse=True)
    assert queue["oldest_wait_ms"] == waits[0]
    assert (queue["claims"], queue["swaps"]) == (1, 1)


def test_workers_say_what_they_do(live: Live) -> None:
    assert _get(live, "/v1/workers") == {"workers": []}
    live.worker("w2")
    live.worker("w1", "busy")
    Presence(live.redis).report("w1", resident=("night", "mosaic"))
    workers = _get(live, "/v1/workers")["workers"]
    assert [(worker["name"], worker["state"], worker["job"]) for worker in workers] == [
        ("w1", "busy", None),
        ("w2", "idle", None),
    ]
    assert [worker["resident"] for worker in workers] == [["night", "mosaic"], []]
    assert workers[0]["seen_at"].endswith("Z")


def test_healthy_and_ready(live: Live) -> None:
    assert _get(live, "/healthz") == {"status": "ok"}
    ready = _get(live, "/readyz")
    assert ready["ready"] is True
    assert {name: part["ok"] for name, part in ready["parts"].items()} == {"redis": True, "store": True}


def test_not_ready_without_the_job_server(tmp_path: Path, unused_port: int) -> None:
    settings = Settings.model_validate(
        {"redis_url": f"redis://:hunter2@127.0.0.1:{unused_port}/0", "data_folder": tmp_path}
    )
    with TestClient(create_app(settings)) as client:
        assert client.get("/healthz").status_code == 200
        response = client.get("/readyz")
    problem = problem_of(response, 503, "not_ready")
    assert {name: part["ok"] for name, part in problem["parts"].items()} == {"redis": False, "store": True}
    assert "redis" in problem["detail"]
    assert response.headers["retry-after"]
    assert "hunter2" not in response.text


def test_not_ready_with_a_job_server_that_may_lose_jobs(live: Live, api_settings: Settings) -> None:
    live.redis.config_set("maxmemory-policy", "allkeys-lru")
    try:
        problem = problem_of(live.http.get("/readyz"), 503, "not_ready")
    finally:
        live.redis.config_set("maxmemory-policy", "noeviction")
    assert "allkeys-lru" in problem["parts"]["redis"]["detail"]


def test_not_ready_without_the_store(redis_url: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    settings = Settings.model_validate({"redis_url": redis_url, "store_folder": tmp_path / "file"})
    with TestClient(create_app(settings)) as client:
        problem = problem_of(client.get("/readyz"), 503, "not_ready")
    assert {name: part["ok"] for name, part in problem["parts"].items()} == {"redis": True, "store": False}


def test_a_part_that_hangs_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    let_go, looks = threading.Event(), []

    def hang() -> None:
        looks.append(1)
        let_go.wait()
        raise StoreUnavailable("The store is away.")

    async def look() -> None:
        readiness = Readiness({"store": hang})
        monkeypatch.setattr("api.readiness.PATIENCE_S", 0.05)
        for _ in range(3):
            assert "does not answer" in (await readiness.parts())["store"].detail
        assert looks == [1]
        let_go.set()
        monkeypatch.setattr("api.readiness.PATIENCE_S", 30)
        assert (await readiness.parts())["store"].detail == "The store is away."
        await readiness.stop()

    asyncio.run(look())


def test_a_part_that_hangs_does_not_hold_up_the_end() -> None:
    let_go = threading.Event()

    def hang() -> None:
        let_go.wait(30)

    async def look() -> None:
        readiness = Readiness({"store": hang})
        looking = asyncio.create_task(readiness.parts())
        await asyncio.sleep(0.05)
        await readiness.stop()
        assert not let_go.is_set()
        with pytest.raises(asyncio.CancelledError):
            await looking

    began_s = time.monotonic()
    asyncio.run(look())
    assert time.monotonic() - began_s < 20
    let_go.set()
