"""``python -m bench.prefetch``: how long does a worker stand idle between jobs whose adapters are all cold?

Every job needs another adapter, which lies on a throttled web server of this machine; a download takes a fixed share of
a job's drawing. A real worker serves them with prefetch, another one without, in turn. Prints one JSON object last:

- ``idle_share``: mean time between two drawings, as a share of a job's drawing; ``idle_share_without``: no prefetch;
- ``draw_ratio``: time to draw a job with prefetch by that without (medians): what it costs the job at hand;
- ``with_prefetch``, ``without``: times, and where jobs found their adapters ("remote": also one that is just coming).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from bench.prefetch.run import run


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.prefetch", description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=8, help="of each worker (default: 8)")
    parser.add_argument("--rounds", type=int, default=2, help="of one worker with and one without (default: 2)")
    parser.add_argument("--steps", type=int, default=40, help="of each job (default: 40)")
    parser.add_argument("--fetch-share", type=float, default=0.4, help="a download's share of a job (default: 0.4)")
    parser.add_argument("--groups", type=int, default=4, help="HOTSLOT_PREFETCH_GROUPS (default: 4)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(
            json.dumps(
                run(options.jobs, options.rounds, options.steps, options.fetch_share, options.groups, Path(folder))
            )
        )


if __name__ == "__main__":
    main()
