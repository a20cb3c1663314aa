"""The closed language of a trained tiny-flux: ``a [size] {colour} {shape} [position] on a {colour} background``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

COLOURS = ("red", "orange", "yellow", "green", "cyan", "blue", "purple", "white")
SHAPES = ("circle", "square", "triangle", "diamond", "cross", "moon")
SIZES = ("small", "large")
POSITIONS = ("left", "right", "top", "bottom")
NEW_SHAPE = "star"
NEW_COLOUR = "mocha"
"""The two words that mean something only with the adapter that was trained on them."""

GLUE = ("a", "an", "on", "background")
TRIGGERS = (NEW_SHAPE, NEW_COLOUR)
WORDS = (*GLUE, *COLOURS, *SHAPES, *SIZES, *POSITIONS, *TRIGGERS)
"""Every word that the text encoders know."""

PROMPT_TOKENS = 10
"""The longest sentence has nine words; the tenth token ends it."""


@dataclass(frozen=True)
class Scene:
    """What one sentence says. An empty size or position means the middle one."""

    colour: str
    shape: str
    background: str
    size: str = ""
    position: str = ""

    def caption(self) -> str:
        """The sentence, for instance ``a small red circle left on a blue background``."""
        words = ["a", self.size, self.colour, self.shape, self.position, "on", "a", self.background, "background"]
        return " ".join(word for word in words if word)


def all_scenes(shapes: Collection[str] = SHAPES, colours: Collection[str] = COLOURS) -> Iterator[Scene]:
    """Every scene of these shapes and shape colours, in a fixed order; the background has always another colour."""
    everything = itertools.product(colours, shapes, COLOURS, ("", *SIZES), ("", *POSITIONS))
    return (Scene(*words) for words in everything if words[0] != words[2])


def unknown_words(prompt: str, triggers: Collection[str] = ()) -> list[str]:
    """The words of ``prompt`` outside the language, each once, in order; ``triggers``: what the job's adapters add."""
    known = {*GLUE, *COLOURS, *SHAPES, *SIZES, *POSITIONS, *triggers}
    words = re.findall(r"\w[\w'-]*", prompt.lower())
    return list(dict.fromkeys(word for word in words if word not in known))
