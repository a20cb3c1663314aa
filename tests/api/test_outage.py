"""The job server is away: quick 503s, and work goes on when it is back."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shared.embedded import EmbeddedServer
from shared.server import connect_api
from shared.settings import Settings
from tests.api.conftest import settings_for
from tests.api.live import BASE, Live, problem_of, serving, until

PROMISED_S = 2.0
NOISE_S = 3.0
"""What a slow, busy machine may add; a hang would take far longer."""
BODY = {"prompt": "a fox", "base_model": BASE}
ID = "01KJ9QZ7W5V0T3N8M2C4X6B1AD"


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Served with a job server whose port is closed."""
    with _away(tmp_path_factory.mktemp("closed"), listening=False) as live:
        yield live


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Served with a job server that takes connections and never answers."""
    with _away(tmp_path_factory.mktemp("silent"), listening=True) as live:
        yield live


@pytest.fixture(params=["closed", "silent"])
def away(request: pytest.FixtureRequest) -> Live:
    found: Live = request.getfixturevalue(request.param)
    return found


@contextmanager
def _away(folder: Path, *, listening: bool) -> Iterator[Live]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if listening:
            listener.listen(100)
        url = f"redis://:hunter2@127.0.0.1:{listener.getsockname()[1]}/0"
        with serving(settings_for(url, folder)) as live:
            yield live


def test_a_post_is_answered_in_time(away: Live) -> None:
    began_s = time.monotonic()
    response = away.http.post("/v1/jobs", json=BODY, headers={"Idempotency-Key": "once"})
    took_s = time.monotonic() - began_s
    problem = problem_of(response, 503, "queue_unavailable")
    assert problem["retryable"] is True
    assert int(response.headers["retry-after"]) > 0
    assert "hunter2" not in response.text
    assert took_s < PROMISED_S + NOISE_S


def test_a_server_that_hangs_after_it_was_used(tmp_path: Path) -> None:
    with (
        EmbeddedServer.start(tmp_path / "valkey") as server,
        serving(settings_for(server.url, tmp_path / "data")) as live,
    ):
        job = live.submit()
        os.kill(server.pid, signal.SIGSTOP)
        try:
            began_s = time.monotonic()
            problem_of(live.http.post("/v1/jobs", json=BODY), 503, "queue_unavailable")
            assert time.monotonic() - began_s < PROMISED_S + NOISE_S
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert live.get(job["id"])["status"] == "queued"


@pytest.mark.parametrize("path", ["?wait=1", "/events"])
def test_a_server_that_hangs_during_a_wait(tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.routes_events.SLICE_MS", 1000)
    with (
        EmbeddedServer.start(tmp_path / "valkey") as server,
        serving(settings_for(server.url, tmp_path / "data")) as live,
    ):
        job = live.submit()
        statuses: list[int] = []

        def wait() -> None:
            statuses.append(live.http.get(f"/v1/jobs/{job['id']}{path}", timeout=60).status_code)

        waiting = threading.Thread(target=wait)
        waiting.start()
        until(lambda: live.services.waiters.seated == 1)
        time.sleep(0.2)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            waiting.join()
        finally:
            os.kill(server.pid, signal.SIGCONT)
    # A stream has begun with 200; it ends, and the next try is told.
    assert statuses == [200 if path == "/events" else 503]


def test_the_client_gives_up_within_what_is_promised(unused_port: int) -> None:
    client = connect_api(Settings.model_validate({"redis_url": f"redis://127.0.0.1:{unused_port}/0"}))
    given = client.connection_pool.connection_kwargs
    tries = given["retry"].get_retries() + 1
    assert tries * max(given["socket_timeout"], given["socket_connect_timeout"]) < PROMISED_S


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"/v1/jobs/{ID}"),
        ("GET", f"/v1/jobs/{ID}?wait=50"),
        ("GET", "/v1/jobs"),
        ("GET", f"/v1/jobs/{ID}/events"),
        ("GET", f"/v1/jobs/{ID}/images/0"),
        ("POST", f"/v1/jobs/{ID}/cancel"),
        ("GET", "/v1/base-models"),
        ("GET", "/v1/queues"),
        ("GET", "/v1/workers"),
    ],
)
def test_everything_else_is_answered_too(closed: Live, method: str, path: str) -> None:
    problem_of(closed.http.request(method, path), 503, "queue_unavailable")


@pytest.mark.parametrize("path", ["?wait=50", "/events"])
def test_waiting_is_answered_too(silent: Live, path: str) -> None:
    problem_of(silent.http.get(f"/v1/jobs/{ID}{path}"), 503, "queue_unavailable")


def test_the_process_is_still_up(away: Live) -> None:
    assert away.http.get("/healthz").json() == {"status": "ok"}


def test_jobs_are_taken_again_after_restarts(tmp_path: Path) -> None:
    first = EmbeddedServer.start(tmp_path / "valkey")
    port = first.port
    try:
        with serving(settings_for(first.url, tmp_path / "data")) as live:
            job = live.submit()
            for _ in range(2):
                first.stop()
                problem_of(live.http.post("/v1/jobs", json=BODY), 503, "queue_unavailable")
                first = EmbeddedServer.start(tmp_path / "valkey", port)
                assert live.get(job["id"])["status"] == "queued"
                live.submit()
    finally:
        first.stop()


@pytest.mark.parametrize("back", [True, False])
def test_a_wait_outlives_a_restart_or_is_told(tmp_path: Path, back: bool) -> None:
    server = EmbeddedServer.start(tmp_path / "valkey")
    port = server.port
    try:
        with serving(settings_for(server.url, tmp_path / "data")) as live:
            job = live.submit()
            statuses: list[tuple[int, str]] = []

            def wait() -> None:
                response = live.http.get(f"/v1/jobs/{job['id']}", params={"wait": 20})
                statuses.append((response.status_code, response.json().get("status")))

            waiting = threading.Thread(target=wait)
            waiting.start()
            while live.services.waiters.seated == 0:
                time.sleep(0.01)
            server.stop()
            if back:
                server = EmbeddedServer.start(tmp_path / "valkey", port)
            waiting.join()
            assert statuses[0][0] in ((200, 503) if back else (503,))
    finally:
        server.stop()
