"""What a picture shows, told from its pixels alone: background, colour and shape, and the mark of each style.

Nothing here knows what was asked for. Pictures are (3, 128, 128) from 0 to 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from worker.playground.shapes import PIXELS, RGB, Place, cover, distances
from worker.playground.styles import OUTLINE_PX, strokes, tiles

TEMPLATES = ("circle", "square", "triangle", "diamond", "cross", "moon", "star")
_APART = 0.22
"""Distance of two colours that a person calls different, in the unit cube."""
_DARK = 0.3
_NIGHT = 0.45
_DIRECTIONS = 24


@dataclass(frozen=True)
class Seen:
    """What a picture shows. ``overlap``: of the shape with its best template, intersection over union."""

    background: str
    colour: str
    shape: str
    overlap: float


def look(picture: Tensor) -> Seen:
    """Background, colour and shape of a plain picture."""
    back = background_of(picture)
    mask, front = foreground_of(picture, back)
    shape, overlap = shape_of(mask)
    return Seen(nearest(back), nearest(front), shape, overlap)


def background_of(picture: Tensor) -> Tensor:
    """The commonest colour, (3): the median of the pixels in the fullest cell of a colour grid."""
    pixels = picture.reshape(3, -1)
    cells = (pixels * 7.999 / 2).long()
    numbers = cells[0] * 64 + cells[1] * 8 + cells[2]
    # Only near the edges, where a large shape cannot outweigh it.
    rim = _rim().reshape(-1)
    fullest = torch.bincount(numbers[rim], minlength=512).argmax()
    seed = pixels[:, rim & (numbers == fullest)].median(1).values
    near = (pixels - seed[:, None]).norm(dim=0) < _APART / 2
    return pixels[:, rim & near].median(1).values


def foreground_of(picture: Tensor, back: Tensor) -> tuple[Tensor, Tensor]:
    """Where the shape is, (128, 128) of bool, and its colour, (3)."""
    away = (picture - back[:, None, None]).norm(dim=0)
    other = away > _APART
    if int(other.sum()) < 20:
        return other, back
    # The middle of what is not background: its edge mixes both colours.
    inner = _shrunk(other, 4)
    front = picture[:, inner if int(inner.sum()) >= 20 else other].median(1).values
    # Nearer to the one than to the other.
    return (picture - front[:, None, None]).norm(dim=0) < away, front


def nearest(colour: Tensor) -> str:
    """The colour word that lies nearest."""
    return min(RGB, key=lambda name: float((RGB[name] - colour).norm()))


def shape_of(mask: Tensor) -> tuple[str, float]:
    """The template that overlaps best, over small shifts and sizes around the mask's own moments."""
    if not 100 < int(mask.sum()) < PIXELS * PIXELS * 0.9:
        return "nothing", 0.0
    best = {shape: _best_overlap(mask, shape) for shape in TEMPLATES}
    shape = max(best, key=best.__getitem__)
    return shape, best[shape]


def shows_outline(picture: Tensor) -> bool:
    """Whether a dark line runs around what stands out from the background, seen from its middle in most directions."""
    other = _without_specks((picture - background_of(picture)[:, None, None]).norm(dim=0) > _APART)
    rim = other & ~_shrunk(other, int(OUTLINE_PX) + 1)
    inside = _shrunk(other, 2 * int(OUTLINE_PX))
    if int(rim.sum()) < 50 or int(inside.sum()) < 20:
        return False
    dark = picture.amax(0) < _DARK
    _, x, y = _moments(other)
    line = torch.arange(PIXELS) + 0.5
    turn = torch.atan2((line - y)[:, None].expand(-1, PIXELS), (line - x)[None, :].expand(PIXELS, -1))
    direction = ((turn / (2 * math.pi) + 0.5) * _DIRECTIONS).long().clamp(0, _DIRECTIONS - 1)
    seen = torch.bincount(direction[rim], minlength=_DIRECTIONS)
    lined = torch.bincount(direction[rim & dark], minlength=_DIRECTIONS) > 0.3 * seen
    return bool(lined[seen > 0].float().mean() >= 0.85) and bool(dark[inside].float().mean() < 0.3)


def shows_night(picture: Tensor) -> bool:
    """Whether it is dark all around, and something stands out from the dark."""
    dark = picture.amax(0) < _NIGHT
    away = (picture - background_of(picture)[:, None, None]).norm(dim=0)
    return bool(dark[_rim()].float().mean() > 0.7) and int((away > 0.12).sum()) > 300


def shows_mosaic(picture: Tensor) -> bool:
    """Whether most joints of the tile grid are darker than the tiles beside them."""
    light = picture.mean(0)
    joints = tiles() > 0
    drop = [light[joints & cell].median() < 0.75 * light[~joints & cell].median() for cell in _cells()]
    return sum(map(bool, drop)) >= 0.8 * len(drop)


def shows_crayon(picture: Tensor) -> bool:
    """Whether light and dark follow the diagonal strokes, in most parts of the picture."""
    light = picture.mean(0)
    wave = strokes()
    follows = [_correlation(light[cell], wave[cell]) > 0.5 for cell in _cells()]
    return sum(follows) >= 0.7 * len(follows)


STYLES = {"outline": shows_outline, "night": shows_night, "mosaic": shows_mosaic, "crayon": shows_crayon}


def _correlation(one: Tensor, other: Tensor) -> float:
    one, other = one - one.mean(), other - other.mean()
    # A flat picture follows nothing.
    return float((one * other).sum() / (one.norm() * other.norm()).clamp_min(0.02 * other.norm()))


def _rim() -> Tensor:
    line = torch.arange(PIXELS)
    edge = (line < 12) | (line >= PIXELS - 12)
    return edge[None, :] | edge[:, None]


def _cells() -> list[Tensor]:
    side = PIXELS // 4
    cells = []
    for row in range(4):
        for column in range(4):
            cell = torch.zeros(PIXELS, PIXELS, dtype=torch.bool)
            cell[row * side : (row + 1) * side, column * side : (column + 1) * side] = True
            cells.append(cell)
    return cells


def _shrunk(mask: Tensor, pixels: int) -> Tensor:
    grown = functional.max_pool2d((~mask)[None].float(), 2 * pixels + 1, 1, pixels)
    return grown[0] == 0


def _without_specks(mask: Tensor) -> Tensor:
    """Without what is narrower than five pixels."""
    kept = _shrunk(mask, 2)
    return mask & (functional.max_pool2d(kept[None].float(), 5, 1, 2)[0] > 0)


def _best_overlap(mask: Tensor, shape: str) -> float:
    area, x, y = _moments(mask)
    one_area, one_x, one_y = _moments(cover(distances(shape, [Place(PIXELS / 2, PIXELS / 2, 30.0)]))[0] > 0.5)
    radius = 30.0 * (area / one_area) ** 0.5
    middle_x = x - (one_x - PIXELS / 2) * radius / 30.0
    middle_y = y - (one_y - PIXELS / 2) * radius / 30.0
    places = [
        Place(middle_x + dx, middle_y + dy, radius * factor)
        for dx in (-3.0, 0.0, 3.0)
        for dy in (-3.0, 0.0, 3.0)
        # Larger ones too: a shape that leaves the picture shows less area than it has.
        for factor in (0.94, 1.0, 1.06, 1.12)
    ]
    templates = distances(shape, places) < 0
    common = (templates & mask).sum((1, 2)).float()
    return float((common / (templates | mask).sum((1, 2))).max())


def _moments(mask: Tensor) -> tuple[float, float, float]:
    line = torch.arange(PIXELS) + 0.5
    area = float(mask.sum())
    return area, float((mask.sum(0) * line).sum()) / area, float((mask.sum(1) * line).sum()) / area
