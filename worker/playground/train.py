"""``python -m worker.playground.train``: makes the bundled weights from nothing but a seed, in a few hours on a CPU.

Stopped anywhere, it goes on from its last checkpoint. At the end ``bench.draws`` judges them, from the
pixels alone, and what it finds lies in ``evaluation.json`` beside the checkpoints.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import torch

from worker.playground.adapters import ADAPTERS
from worker.playground.assemble import export
from worker.playground.train_adapters import train_adapter
from worker.playground.train_autoencoder import train_autoencoder
from worker.playground.train_transformer import train_transformer

log = logging.getLogger(__name__)


def main() -> None:
    """Train what is not trained yet, then write the weights."""
    options = _options()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(options.threads)
    options.work.mkdir(parents=True, exist_ok=True)
    autoencoder = train_autoencoder(options.work)
    transformer = train_transformer(options.work, autoencoder)
    adapters = {name: train_adapter(options.work, name, autoencoder, transformer) for name in ADAPTERS}
    export(options.out, autoencoder, transformer, adapters)
    log.info("written to %s", options.out)
    _evaluate(options.out, options.work / "evaluation.json")


def _evaluate(weights: Path, report: Path) -> None:
    # In a process of its own, because benches know the workers and not the other way round.
    command = [sys.executable, "-m", "bench.draws", "--weights", str(weights)]
    if find_spec("bench") is None:
        log.info("to judge them, run from a checkout: %s", " ".join(command))
        return
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - our own program
    report.write_text(done.stdout)
    log.info("judged in %s", report)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m worker.playground.train", description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder for checkpoints and the log")
    parser.add_argument("--out", type=Path, required=True, help="folder that the weights are written to")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (default: 2)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
