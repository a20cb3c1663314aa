"""``python -m bench.schedule``: a table, ``bench/out/schedule.png``, and one JSON object as the last line."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from bench.schedule.plot import draw
from bench.schedule.policies import Policy, all_policies, default_limits
from bench.schedule.report import Report, report_of, row_of
from bench.schedule.scenarios import DEFAULT, LARGE, run_all
from bench.schedule.table import lines

PICTURE = Path("bench/out/schedule.png")


def main() -> None:
    """Simulate, print, draw."""
    parser = argparse.ArgumentParser(prog="python -m bench.schedule", description=__doc__)
    parser.add_argument("--large", action="store_true", help="only 100,000 jobs over 1,000 workers, in our order")
    arguments = parser.parse_args()
    limits = default_limits()
    policies = all_policies(limits)
    if arguments.large:
        _large(next(policy for policy in policies if policy.name == "ours"))
        return
    report = report_of(list(run_all(DEFAULT, policies)))
    rows = [row for _, row in report.rows]
    print(*lines(rows), sep="\n")
    draw(report, PICTURE)
    print(f"\n{PICTURE}")
    print(_json(report, limits.overtake_max))


def _json(report: Report, bound: int) -> str:
    return json.dumps({"scenarios": [row for _, row in report.rows], "summary": report.summary(bound)})


def _large(policy: Policy) -> None:
    started_s = time.process_time()
    (run,) = run_all([LARGE], [policy])
    seconds = time.process_time() - started_s
    print(*lines([row_of(run)]), sep="\n")
    print(json.dumps({"scenarios": [row_of(run)], "summary": {"jobs": LARGE.jobs, "cpu_s": round(seconds, 1)}}))


if __name__ == "__main__":
    main()
