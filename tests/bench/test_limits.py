from __future__ import annotations

from pathlib import Path

from bench.limits import GROUPS, STEPS, measure_api, measure_server
from shared.embedded import EmbeddedServer
from shared.settings import Settings

JOBS = 120


def test_what_is_measured_is_a_whole_life_of_each_job(redis_url: str, valkey: EmbeddedServer, tmp_path: Path) -> None:
    settings = Settings.model_validate({"redis_url": redis_url})
    server = measure_server(settings, JOBS)
    assert server["draw_us"] > server["submit_us"] > 0
    assert server["bytes_per_ended_job"] > 1000
    assert int(valkey.ask("ZCARD", "hotslot:index:succeeded").lstrip(b":")) == JOBS
    assert (GROUPS, STEPS) == (100, 28)
    api = measure_api(settings, tmp_path, JOBS)
    assert api["submit_ms"] > 0
    assert int(valkey.ask("ZCARD", "hotslot:index:queued").lstrip(b":")) == JOBS
