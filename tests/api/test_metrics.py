"""The numbers for Prometheus, as its own grammar has them."""

from __future__ import annotations

import re

from api.metrics import QueueNumbers, exposition
from shared.job import Status
from shared.meters import Meters
from shared.presence import Presence, WorkerInfo
from tests.api.live import BASE, Live

_SAMPLE = re.compile(r'([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\} (-?[0-9.e+-]+)')
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\.)*)"')


def read(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample; anything that is not in the format fails."""
    found, typed = {}, ""
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# TYPE "):
            _, _, typed, kind = line.split(" ")
            assert kind in ("counter", "gauge", "summary")
            assert (kind == "counter") == typed.endswith("_total")
            continue
        if line.startswith("# HELP "):
            continue
        sample = _SAMPLE.fullmatch(line)
        assert sample, line
        assert sample[1] in (typed, f"{typed}_sum", f"{typed}_count"), line
        key = sample[1], frozenset(_LABEL.findall(sample[2]))
        assert key not in found
        found[key] = float(sample[3])
    return found


def labels(**values: str) -> frozenset[tuple[str, str]]:
    return frozenset(values.items())


def test_all_numbers(live: Live) -> None:
    live.register("night")
    waiting, cancelled = live.submit(adapters=[{"source": "night"}]), live.submit()
    live.http.post(f"/v1/jobs/{cancelled['id']}/cancel")
    live.submit()
    claimed = live.queue.claim(BASE, "none", "w1")
    assert claimed not in ("empty", "bound")
    live.queue.count_swap(BASE)
    Meters(live.redis).add(BASE, {"hits_memory": 5, "swap_us": 2500, "swap_count": 2, "recompiles": 1})
    Presence(live.redis).report("w1", base_model=BASE, state="busy", warm_bytes=1024, warm_adapters=3, busy_ratio=0.5)
    Presence(live.redis).report("w2", base_model=BASE, state="idle", busy_ratio=None)
    response = live.http.get("/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found, base = read(response.text), labels(base_model=BASE)
    assert waiting["status"] == "queued"
    assert found["hotslot_queue_depth", base] == 1
    assert found["hotslot_running", base] == 1
    assert found["hotslot_claims_total", base] == 1
    assert found["hotslot_swaps_total", base] == 1
    assert found["hotslot_overtaken_max", base] == 0
    assert found["hotslot_recompiles_total", base] == 1
    assert found["hotslot_adapter_hits_total", labels(base_model=BASE, tier="memory")] == 5
    assert found["hotslot_adapter_hits_total", labels(base_model=BASE, tier="remote")] == 0
    assert found["hotslot_swap_seconds_sum", base] == 0.0025
    assert found["hotslot_swap_seconds_count", base] == 2
    assert found["hotslot_fetch_seconds_count", base] == found["hotslot_convert_seconds_count", base] == 0
    by_state = {state: found["hotslot_jobs", labels(state=state.value)] for state in Status}
    assert by_state == dict.fromkeys(Status, 0) | {Status.QUEUED: 1, Status.RUNNING: 1, Status.CANCELLED: 1}
    assert found["hotslot_workers", base] == 2
    assert found["hotslot_busy_ratio", labels(base_model=BASE, worker="w1")] == 0.5
    assert ("hotslot_busy_ratio", labels(base_model=BASE, worker="w2")) not in found
    assert found["hotslot_adapter_memory_bytes", labels(base_model=BASE, worker="w1")] == 1024
    assert found["hotslot_adapters_in_memory", labels(base_model=BASE, worker="w1")] == 3


def test_the_worst_overtaking_is_the_queues_own_count() -> None:
    text = exposition([QueueNumbers("m", 0, 0, {"overtaken_max": 7}, {})], {}, [])
    assert read(text)["hotslot_overtaken_max", labels(base_model="m")] == 7


def test_labels_are_escaped() -> None:
    worker = WorkerInfo(name='a"b\\c\nd', base_model="m", state="idle")
    text = exposition([QueueNumbers("m", 0, 0, {}, {})], {}, [worker])
    assert read(text)["hotslot_adapters_in_memory", labels(base_model="m", worker='a\\"b\\\\c\\nd')] == 0
