"""The built-in base model ``tiny-flux``: a trained FLUX pipeline, small enough for any CPU, with six adapters.

``worker.playground.train`` made it; its weights come with the package.
"""

from __future__ import annotations

from pathlib import Path

from worker.playground.bundled import Bundled, bundled

SOURCE = "builtin:tiny-flux"
"""As a catalogue names it."""
WEIGHTS = Path(__file__).parent / "playground" / "weights"


def tiny_flux(folder: Path = WEIGHTS) -> Bundled:
    """Where its files lie, each of them proven; ``WeightsAltered`` if one is missing or altered."""
    return bundled(folder)
