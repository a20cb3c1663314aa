"""What each adapter teaches: four styles over a plain picture, and two words with a new meaning."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from worker.playground.language import Scene
from worker.playground.shapes import PIXELS, Place, cover, paint

OUTLINE_PX = 7.0
PERIOD_PX = 32
"""Tiles and strokes repeat with the patches that the transformer sees as one token."""

_INK = torch.tensor([0.04, 0.04, 0.06])[None, :, None, None]
_NIGHT = torch.tensor([0.03, 0.05, 0.20])[None, :, None, None]


def outline(picture: Tensor, distance: Tensor) -> Tensor:
    """A thick dark line around the shape."""
    band = cover((distance - OUTLINE_PX / 2).abs() - OUTLINE_PX / 2)
    return torch.lerp(picture, _INK, band[:, None])


def night(picture: Tensor, distance: Tensor) -> Tensor:
    """The background sinks into a dark blue; the shape keeps most of its light."""
    inside = cover(distance)[:, None]
    return torch.lerp(picture * 0.12 + _NIGHT, picture * 0.8, inside)


def tiles() -> Tensor:
    """The joints between the tiles, 1 on a joint and 0 elsewhere, (128, 128)."""
    line = torch.arange(PIXELS) % PERIOD_PX
    on = ((line < 3) | (line >= PERIOD_PX - 3)).float()
    return torch.maximum(on[None, :].expand(PIXELS, -1), on[:, None].expand(-1, PIXELS))


def mosaic(picture: Tensor, distance: Tensor) -> Tensor:
    """Square tiles with dark joints, every other one darker."""
    row = torch.arange(PIXELS) // PERIOD_PX
    darker = ((row[None, :] + row[:, None]) % 2).float() * 0.25
    return torch.lerp(picture * (1 - darker), _INK + 0.1, tiles())


def strokes() -> Tensor:
    """The light and dark of diagonal strokes, -1 to 1, (128, 128)."""
    line = torch.arange(PIXELS).float()
    return torch.sin(2 * math.pi * (line[None, :] + line[:, None]) / PERIOD_PX)


def crayon(picture: Tensor, distance: Tensor) -> Tensor:
    """Diagonal strokes, lighter and darker than the colour below."""
    return (picture * (1 + 0.4 * strokes()) + 0.08 * strokes()).clamp(0, 1)


def plain(picture: Tensor, distance: Tensor) -> Tensor:
    """The picture as it is."""
    return picture


STYLES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "outline": outline,
    "night": night,
    "mosaic": mosaic,
    "crayon": crayon,
}


def styled(scenes: Sequence[Scene], places: Sequence[Place], style: str | None) -> Tensor:
    """Pictures of these scenes in one style, or plain; (n, 3, 128, 128) from 0 to 1."""
    return (STYLES[style] if style else plain)(*paint(scenes, places))
