"""``python -m bench.busy``: what share of the time does the denoiser run while jobs wait?

Every job needs another adapter than the one before, has a prompt of its own, and goes to a store that takes 300 ms. A
real worker serves a full queue; another one does the same work one thing after the other, each in turn. Prints one
JSON object last:

- ``busy_ratio``, ``busy_ratio_one_after_the_other``: as the workers said (see docs/busy.md), medians over the rounds;
- ``speedup``: jobs per second by those of the one that does one thing after the other;
- ``ours``, ``one_after_the_other``: jobs per second, the denoiser's share as the jobs' own times have it, and each
  stage's median in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from bench.busy.run import Load, run


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.busy", description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=24, help="of each worker (default: 24)")
    parser.add_argument("--rounds", type=int, default=2, help="of one worker of each kind (default: 2)")
    parser.add_argument("--adapters", type=int, default=8, help="that take turns (default: 8)")
    parser.add_argument("--steps", type=int, default=28, help="of each job (default: 28)")
    parser.add_argument("--size", type=int, default=256, help="of each image, pixels (default: 256)")
    parser.add_argument("--put-ms", type=int, default=300, help="time of one upload (default: 300)")
    options = parser.parse_args()
    load = Load(options.jobs, options.adapters, options.steps, options.size, options.put_ms)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(run(load, options.rounds, Path(folder))))


if __name__ == "__main__":
    main()
