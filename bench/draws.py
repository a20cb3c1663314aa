"""``python -m bench.draws``: does tiny-flux draw what its prompts say, and do its adapters do what they are for?

Prompts and seeds were never trained on. Every picture is judged by its pixels alone (``bench.look``), which know
nothing of the prompt. Prints one JSON object last:

- ``colour_accuracy``, ``background_accuracy``, ``shape_accuracy``: shares of the plain pictures;
- ``adapter_effect``: share of the pictures with the adapter (and its word in the prompt, if it has one) that show it;
- ``adapter_leak``: share of the pictures that show it unasked: without any adapter, or with it but without its word;
- ``adapter_keeps_shape``: share of the pictures with the adapter that still show the shape that was asked for;
- ``seconds_per_image``: median, 8 steps, one thread.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from bench.look import STYLES, Seen, look
from shared.adapter_files import sha256_of
from shared.catalogue import read_catalogue
from worker.engine import DiffusersEngine
from worker.engine_types import AdapterFile, Drawing
from worker.playground.adapters import ADAPTERS
from worker.playground.language import NEW_COLOUR, NEW_SHAPE, Scene, all_scenes
from worker.playground.lessons import held_out
from worker.tiny_flux import WEIGHTS, tiny_flux

STEPS = 8
FIRST_SEED = 5_000_000
KEEPS_SHAPE = ("outline", "night", NEW_COLOUR)
"""Those under which a shape can be told by the same look."""


class Artist:
    """The engine that serves jobs, drawing one scene after the other; remembers how long each took."""

    def __init__(self, weights: Path) -> None:
        found = tiny_flux(weights)
        entry = read_catalogue().get("tiny-flux").model_copy(update={"source": str(found.pipeline_folder)})
        self._engine = DiffusersEngine.load(entry, threads=1)
        self._engine.warm()
        self._files = found.adapters
        self._seed = FIRST_SEED
        self.seconds: list[float] = []

    def draw(self, scenes: Iterable[Scene], name: str | None = None) -> list[Tensor]:
        """A picture (3, 128, 128) from 0 to 1 of each scene, each from a seed of its own."""
        path = self._files[name] if name else None
        asked = [AdapterFile(path.stem, path, sha256_of(path), 1.0)] if path else []
        self._engine.swap(self._engine.prepare(asked))
        return [self._one(scene.caption()) for scene in scenes]

    def _one(self, prompt: str) -> Tensor:
        self._seed += 1
        started_s = time.perf_counter()
        drawn = self._engine.draw(Drawing(prompt, None, 128, 128, STEPS, 1.0, self._seed), lambda done, steps: None)
        self.seconds.append(time.perf_counter() - started_s)
        return torch.from_numpy(drawn.pixels).permute(2, 0, 1).float() / 255


def some(scenes: Iterable[Scene], count: int) -> list[Scene]:
    """So many of those that were held out from the training, evenly spread."""
    unseen = [scene for scene in scenes if held_out(scene)]
    return [unseen[place * len(unseen) // count] for place in range(count)]


def shows(name: str, picture: Tensor) -> bool:
    """Whether the mark of this adapter is in the picture."""
    if name in STYLES:
        return STYLES[name](picture)
    seen = look(picture)
    return seen.shape == NEW_SHAPE if name == NEW_SHAPE else seen.colour == NEW_COLOUR


def share(found: Sequence[bool]) -> float:
    """How many of them are true, 0 to 1."""
    return round(sum(found) / len(found), 4)


def right(scenes: Sequence[Scene], seen: Sequence[Seen], part: str) -> float:
    """Share of the pictures that show the part (colour, background, shape) that the scene names."""
    return share([getattr(one, part) == getattr(scene, part) for scene, one in zip(scenes, seen, strict=True)])


def asked_scenes(name: str, count: int) -> list[Scene]:
    """Scenes in which this adapter must show: with its word, if it has one."""
    if name == NEW_SHAPE:
        return some(all_scenes(shapes=(NEW_SHAPE,)), count)
    return some(all_scenes(colours=(NEW_COLOUR,)) if name == NEW_COLOUR else all_scenes(), count)


def measure(weights: Path, prompts: int, each: int) -> dict[str, object]:
    """The whole evaluation of the weights in this folder; ``each``: pictures per adapter."""
    artist = Artist(weights)
    scenes = some(all_scenes(), prompts)
    plain = artist.draw(scenes)
    seen = list(map(look, plain))
    effect, leak, keeps = {}, {}, {}
    for name, adapter in ADAPTERS.items():
        asked = asked_scenes(name, each)
        pictures = artist.draw(asked, name)
        effect[name] = share([shows(name, picture) for picture in pictures])
        unasked = plain + (artist.draw(some(all_scenes(), each), name) if adapter.trigger else [])
        leak[name] = share([shows(name, picture) for picture in unasked])
        if name in KEEPS_SHAPE:
            keeps[name] = right(asked, list(map(look, pictures)), "shape")
        sys.stderr.write(f"{name}: shows in {effect[name]:.1%}, unasked in {leak[name]:.1%}\n")
    return {
        "prompts": prompts,
        "pictures_per_adapter": each,
        "steps": STEPS,
        "colour_accuracy": right(scenes, seen, "colour"),
        "background_accuracy": right(scenes, seen, "background"),
        "shape_accuracy": right(scenes, seen, "shape"),
        "adapter_effect": effect,
        "adapter_leak": leak,
        "adapter_keeps_shape": keeps,
        "seconds_per_image": round(statistics.median(artist.seconds), 3),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.draws")
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help="folder of weights (default: the bundled ones)")
    parser.add_argument("--prompts", type=int, default=240, help="plain pictures (default: 240)")
    parser.add_argument("--each", type=int, default=60, help="pictures per adapter (default: 60)")
    options = parser.parse_args()
    print(json.dumps(measure(options.weights, options.prompts, options.each)))


if __name__ == "__main__":
    main()
