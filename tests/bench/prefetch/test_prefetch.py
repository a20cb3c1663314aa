"""The account of idle time, and the bench itself, small."""

from __future__ import annotations

from pathlib import Path

from bench.prefetch.account import Drawn, Measured, summed
from bench.prefetch.run import run


def test_idle_time_is_what_lies_between_drawings() -> None:
    one = Measured([Drawn(2100, 3100), Drawn(0, 1000), Drawn(1000, 2000)], {"fetch_us": 3000, "fetch_count": 1})
    other = Measured([Drawn(0, 1000), Drawn(1200, 2200)], {"fetch_us": 1000, "fetch_count": 1, "convert_count": 1})
    assert one.idle_ms == [0, 100]
    found = summed([one, other])
    assert (found["jobs"], found["draw_ms"], found["idle_ms"], found["idle_worst_ms"]) == (5, 1000, 100, 200)
    assert (found["idle_share"], found["fetch_ms"], found["fetch_share"]) == (0.1, 2, 0.002)


def test_with_prefetch_jobs_find_their_adapters_in_memory(tmp_path: Path) -> None:
    found = run(jobs=3, rounds=1, steps=10, fetch_share=0.3, groups=4, folder=tmp_path)
    assert found["without"]["hits"] == {"memory": 0, "disk": 0, "remote": 3}
    assert found["with_prefetch"]["hits"]["memory"] + found["with_prefetch"]["hits"]["remote"] == 3
    assert found["with_prefetch"]["hits"]["memory"] >= 1
