"""``python -m bench.chaos --seconds 120``: prints one JSON object last; exit status 1 if any promise broke."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from bench.chaos.run import SETTLE_S, run


def main() -> int:
    """Read the command line, run, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long faults and jobs go on at least")
    parser.add_argument(
        "--settle-seconds", type=float, default=SETTLE_S, help="how long all may take to end afterwards"
    )
    parser.add_argument("--most-open", type=int, default=24, help="jobs under way at most")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the jobs and the faults")
    parser.add_argument("--out", type=Path, default=Path("bench/out/chaos"), help="folder of the logs")
    options = parser.parse_args()
    report = run(options.seconds, options.settle_seconds, options.most_open, options.seed, options.out)
    print(json.dumps(report, indent=2))
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
