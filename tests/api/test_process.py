"""``python -m api`` as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import httpx2
import pytest
import redis

from tests.api.live import BASE, until

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "diffusers", "transformers", "peft", "numpy", "worker", "cli")


@contextmanager
def _api(port: int, **settings: str) -> Iterator[subprocess.Popen[str]]:
    environment = os.environ | {f"HOTSLOT_{name.upper()}": value for name, value in settings.items()}
    process = subprocess.Popen(
        [sys.executable, "-m", "api", "--port", str(port)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _up(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
    except httpx2.TransportError:
        return False


def test_it_serves_and_ends_on_term_while_somebody_waits(redis_url: str, unused_port: int, tmp_path: Path) -> None:
    with _api(unused_port, redis_url=redis_url, data_folder=str(tmp_path)) as process:
        until(lambda: _up(unused_port) or process.poll() is not None)
        url = f"http://127.0.0.1:{unused_port}"
        job = httpx2.post(f"{url}/v1/jobs", json={"prompt": "the secret prompt", "base_model": BASE}).json()
        bad = httpx2.post(f"{url}/v1/jobs", json={"prompt": "the secret prompt", "steps": "x"})
        assert bad.status_code == 422
        answers: list[int] = []
        waiting = Thread(
            target=lambda: answers.append(httpx2.get(f"{url}/v1/jobs/{job['id']}?wait=50", timeout=60).status_code)
        )
        waiting.start()
        until(lambda: _blocked(redis_url))
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
        waiting.join()
    assert answers == [200]
    assert process.returncode in (0, -signal.SIGTERM)
    assert "POST /v1/jobs 202" in output
    assert "POST /v1/jobs 422" in output
    assert "secret prompt" not in output
    assert "wait=50" not in output
    assert "Traceback" not in output


def _blocked(redis_url: str) -> bool:
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        return any("b" in each["flags"] for each in client.client_list())


def test_it_starts_without_the_job_server(unused_port: int, tmp_path: Path) -> None:
    with _api(unused_port, redis_url="redis://127.0.0.1:1/0", data_folder=str(tmp_path)) as process:
        until(lambda: _up(unused_port) or process.poll() is not None)
        assert process.poll() is None


def test_it_refuses_a_job_server_that_may_lose_jobs(redis_url: str, unused_port: int, tmp_path: Path) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            with _api(unused_port, redis_url=redis_url, data_folder=str(tmp_path)) as process:
                output, _ = process.communicate(timeout=60)
        finally:
            client.config_set("maxmemory-policy", "noeviction")
    assert process.returncode == 2
    assert "allkeys-lru" in output
    assert "Traceback" not in output


def test_it_refuses_a_catalogue_that_is_none(redis_url: str, unused_port: int, tmp_path: Path) -> None:
    with _api(unused_port, redis_url=redis_url, catalogue=str(tmp_path / "absent.toml")) as process:
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "absent.toml" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("redis_url", "localhost:6379"),
        ("redis_url", "foo"),
        ("lease_ms", "abc"),
        ("webhook_allowed_networks", "10.0.0.0/99"),
    ],
)
def test_a_setting_that_is_wrong_is_one_sentence(unused_port: int, name: str, value: str) -> None:
    with _api(unused_port, **{name: value}) as process:
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert f"HOTSLOT_{name.upper()} is not valid: " in output
    assert output.count("\n") == 1


def test_a_name_that_is_no_setting_is_told(unused_port: int) -> None:
    with _api(unused_port, s3_buket="mine", lease_ms="abc") as process:
        output, _ = process.communicate(timeout=60)
    assert "HOTSLOT_S3_BUKET is no setting; did you mean HOTSLOT_S3_BUCKET?" in output


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    text = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from api.main import create_app\n"
        "from shared.settings import Settings\n"
        f"create_app(Settings(data_folder=Path({str(tmp_path)!r}))).openapi()\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))\n"
    )
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert {"api", "shared", "fastapi", "celery"} <= loaded
    assert not loaded & set(HEAVY)
