"""``python -m worker.playground.train``: makes the bundled weights from nothing but a seed, in a few hours on a CPU.

Stopped anywhere, it goes on from its last checkpoint. ``bench.look`` tells from the pixels of a picture what it shows.
"""

from __future__ import annotations

import argparse
import logging
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


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m worker.playground.train", description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder for checkpoints and the log")
    parser.add_argument("--out", type=Path, required=True, help="folder that the weights are written to")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (default: 2)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
