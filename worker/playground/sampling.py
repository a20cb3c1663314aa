"""Random scenes and pictures for the training, each batch from its own seed, so that a resumed run sees the same."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from worker.playground.language import COLOURS, NEW_COLOUR, NEW_SHAPE, POSITIONS, SHAPES, SIZES, Scene
from worker.playground.shapes import paint, place_of
from worker.playground.styles import STYLES, plain

SEED = 20
_LOOKS = ("",) * 8 + (*STYLES, "outline+night", "outline+mosaic")


def generator_of(stage: int, step: int) -> torch.Generator:
    """The source of all chance in one step of one stage."""
    return torch.Generator().manual_seed((SEED * 16 + stage) * 1_000_000 + step)


def pick(words: Sequence[str], generator: torch.Generator) -> str:
    """One of these words."""
    return words[int(torch.randint(len(words), (), generator=generator))]


def random_scene(generator: torch.Generator, shapes: Sequence[str] = SHAPES, colours: Sequence[str] = COLOURS) -> Scene:
    """A scene of these shapes and shape colours; half of them have no size word, half no position word."""
    colour = pick(colours, generator)
    return Scene(
        colour=colour,
        shape=pick(shapes, generator),
        background=pick([word for word in COLOURS if word != colour], generator),
        size=pick(("", "", *SIZES), generator),
        position=pick(("",) * len(POSITIONS) + POSITIONS, generator),
    )


def varied_pictures(count: int, generator: torch.Generator) -> Tensor:
    """Everything that the autoencoder must know, (n, 3, 128, 128): all words, and every style now and then."""
    shapes, colours = (*SHAPES, NEW_SHAPE), (*COLOURS, NEW_COLOUR)
    scenes = [random_scene(generator, shapes, colours) for _ in range(count)]
    pictures, distance = paint(scenes, [place_of(scene, generator) for scene in scenes])
    for row in range(count):
        for name in pick(_LOOKS, generator).split("+"):
            one = slice(row, row + 1)
            pictures[one] = STYLES.get(name, plain)(pictures[one], distance[one])
    return pictures
