"""Pictures of scenes, drawn by signed distance: the ground truth that tiny-flux learns from and is judged against."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from worker.playground.language import Scene

PIXELS = 128
"""Width and height of every picture, px."""

_RGB = {
    "red": (0.86, 0.15, 0.15),
    "orange": (0.97, 0.55, 0.08),
    "yellow": (0.97, 0.88, 0.20),
    "green": (0.16, 0.62, 0.26),
    "cyan": (0.20, 0.80, 0.82),
    "blue": (0.15, 0.30, 0.85),
    "purple": (0.56, 0.24, 0.74),
    "white": (0.95, 0.95, 0.95),
    "mocha": (0.42, 0.26, 0.15),
}
RGB = {name: torch.tensor(value) for name, value in _RGB.items()}
"""Each colour word as red, green, blue from 0 to 1."""

_RADIUS_PX = {"small": 28.0, "": 37.0, "large": 48.0}
_SHIFT_PX = 22.0
_JITTER_PX = 4.0
_AWAY = {"": (0.0, 0.0), "left": (-1.0, 0.0), "right": (1.0, 0.0), "top": (0.0, -1.0), "bottom": (0.0, 1.0)}


@dataclass(frozen=True)
class Place:
    """Where the shape lies: its centre and its radius, px."""

    x: float
    y: float
    radius: float


def place_of(scene: Scene, generator: torch.Generator | None = None) -> Place:
    """Where the sentence puts the shape; with a generator, moved and resized a little at random."""
    jitter = torch.zeros(3) if generator is None else 2 * torch.rand(3, generator=generator) - 1
    dx, dy = _AWAY[scene.position]
    return Place(
        x=PIXELS / 2 + dx * _SHIFT_PX + _JITTER_PX * float(jitter[0]),
        y=PIXELS / 2 + dy * _SHIFT_PX + _JITTER_PX * float(jitter[1]),
        radius=_RADIUS_PX[scene.size] * (1 + 0.06 * float(jitter[2])),
    )


def distances(shape: str, places: Sequence[Place]) -> Tensor:
    """Signed distance to the edge of the shape, px, negative inside; (n, 128, 128)."""
    grid = torch.arange(PIXELS) + 0.5
    x = (grid[None, None, :] - torch.tensor([place.x for place in places])[:, None, None]).expand(-1, PIXELS, -1)
    y = (grid[None, :, None] - torch.tensor([place.y for place in places])[:, None, None]).expand(-1, -1, PIXELS)
    radius = torch.tensor([place.radius for place in places])[:, None, None]
    return _DISTANCE[shape](x / radius, y / radius) * radius


def cover(distance: Tensor) -> Tensor:
    """How much of each pixel lies inside, 0 to 1: a ramp of one pixel at the edge."""
    return (0.5 - distance).clamp(0, 1)


def paint(scenes: Sequence[Scene], places: Sequence[Place]) -> tuple[Tensor, Tensor]:
    """The plain pictures (n, 3, 128, 128) from 0 to 1, and the signed distances (n, 128, 128) they were drawn from."""
    distance = torch.empty(len(scenes), PIXELS, PIXELS)
    for shape in {scene.shape for scene in scenes}:
        rows = [row for row, scene in enumerate(scenes) if scene.shape == shape]
        distance[rows] = distances(shape, [places[row] for row in rows])
    front = torch.stack([RGB[scene.colour] for scene in scenes])[:, :, None, None]
    back = torch.stack([RGB[scene.background] for scene in scenes])[:, :, None, None]
    return torch.lerp(back, front, cover(distance)[:, None]), distance


def _circle(x: Tensor, y: Tensor) -> Tensor:
    return torch.hypot(x, y) - 1


def _square(x: Tensor, y: Tensor) -> Tensor:
    return torch.maximum(x.abs(), y.abs()) - 0.88


def _triangle(x: Tensor, y: Tensor) -> Tensor:
    # Three half planes at 0.55 from the middle, the tip up, moved down so that it fills its circle.
    slanted = x.abs() * math.cos(math.pi / 6) - (y - 0.2) * 0.5
    return torch.maximum(slanted, y - 0.2) - 0.6


def _diamond(x: Tensor, y: Tensor) -> Tensor:
    return (x.abs() * 1.25 + y.abs() - 1.08) / math.hypot(1.25, 1.0)


def _cross(x: Tensor, y: Tensor) -> Tensor:
    across = torch.maximum(x.abs() - 1, y.abs() - 0.34)
    down = torch.maximum(x.abs() - 0.34, y.abs() - 1)
    return torch.minimum(across, down)


def _moon(x: Tensor, y: Tensor) -> Tensor:
    return torch.maximum(torch.hypot(x, y) - 1, 0.78 - torch.hypot(x - 0.62, y))


def _star(x: Tensor, y: Tensor) -> Tensor:
    # Five tips at 1.3, five dents at 0.6; one edge, folded ten times around. It is as large as a circle of radius 1
    # looks; with shorter tips a small one would drown in the autoencoder.
    turn = torch.atan2(x, -y)
    fifth = 2 * math.pi / 5
    folded = (turn - fifth * torch.round(turn / fifth)).abs()
    length = torch.hypot(x, y)
    along, away = length * torch.cos(folded), length * torch.sin(folded)
    tip, dent = 1.3, 0.6
    dent_x, dent_y = dent * math.cos(fifth / 2), dent * math.sin(fifth / 2)
    edge = math.hypot(dent_x - tip, dent_y)
    return ((along - tip) * dent_y - away * (dent_x - tip)) / edge


_DISTANCE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "circle": _circle,
    "square": _square,
    "triangle": _triangle,
    "diamond": _diamond,
    "cross": _cross,
    "moon": _moon,
    "star": _star,
}
