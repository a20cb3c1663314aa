"""``python -m bench.api``: submits and reads per second, and submit-to-claimed beside bare Celery; JSON last."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.api.measure import bottleneck, summary
from bench.api.stack import Bench


def main() -> int:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.api", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="jobs and bare tasks of the latency part, in turn")
    parser.add_argument("--requests", type=int, default=1000, help="of each load")
    parser.add_argument("--callers", type=int, default=8, help="side by side, in the second load of each kind")
    parser.add_argument("--out", type=Path, default=Path("bench/out/api"), help="folder of the logs")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="hotslot-bench-") as folder, Bench(Path(folder), options.out) as bench:
        report = {
            "latency": _latency(bench, options.rounds),
            "load": _load(bench, options.requests, options.callers),
            "cpus": os.cpu_count(),
            "load_average": [round(load, 1) for load in os.getloadavg()],
        }
    print(json.dumps(report, indent=2))
    return 0


def _latency(bench: Bench, rounds: int) -> dict[str, Any]:
    """Ours and bare Celery's in turn, so that both see the same machine."""
    bench.start_workers()
    ours, bare = [], []
    for _ in range(rounds):
        ours.append(bench.claimed_after_s())
        bare.append(bench.bare.start_after_s())
    bench.stop_workers()
    submit_to_claimed, bare_celery = summary(ours), summary(bare)
    return {
        "submit_to_claimed": asdict(submit_to_claimed),
        "bare_celery": asdict(bare_celery),
        "ratio_p50": round(submit_to_claimed.p50_ms / bare_celery.p50_ms, 2),
    }


def _load(bench: Bench, requests: int, callers: int) -> list[dict[str, Any]]:
    """First one caller, for the latency; then several, for the throughput."""
    found = []
    for number in (1, callers):
        share = requests if number > 1 else max(100, requests // 4)
        for name, loaded in (("POST", bench.post(number, share)), ("GET", bench.get(number, share))):
            found.append({"request": name, **asdict(loaded), "bottleneck": bottleneck(loaded.cpu_ms)})
    return found


if __name__ == "__main__":
    sys.exit(main())
