"""The contact sheet: a row of images per adapter set, each with what it was made with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw, ImageFont

CELL_WIDTH = 168
IMAGE_SIDE = 128
MARGIN = 16
TITLE_WIDTH = 120
LINE_HEIGHT = 15
CAPTION_LINES = 4
HEADER_HEIGHT = 44
ROW_HEIGHT = IMAGE_SIDE + CAPTION_LINES * LINE_HEIGHT + 2 * 10

PAPER = (250, 249, 246)
INK = (32, 32, 36)
GREY = (120, 120, 126)
EMPTY = (228, 226, 220)

Measure = Callable[[str], float]
"""Width of a text in pixels."""


@dataclass(frozen=True)
class Cell:
    """One image (RGB, any size; None: there is none) and its caption, a line per entry; long lines are wrapped."""

    image: Image.Image | None
    caption: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One adapter set."""

    title: str
    cells: tuple[Cell, ...]


def sheet_size(cells_per_row: Sequence[int]) -> tuple[int, int]:
    """Width and height in pixels."""
    widest = max(cells_per_row, default=0)
    return 2 * MARGIN + TITLE_WIDTH + widest * CELL_WIDTH, 2 * MARGIN + HEADER_HEIGHT + len(cells_per_row) * ROW_HEIGHT


def cell_corner(row: int, column: int) -> tuple[int, int]:
    """Top left pixel of a cell, counted from 0."""
    return MARGIN + TITLE_WIDTH + column * CELL_WIDTH, MARGIN + HEADER_HEIGHT + row * ROW_HEIGHT


def wrapped(text: str, width: float, measure: Measure) -> list[str]:
    """Lines no wider than ``width``; a single word that is wider stays whole."""
    lines: list[str] = []
    for word in text.split():
        if lines and measure(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def draw_sheet(heading: str, rows: Sequence[Row]) -> Image.Image:
    """The sheet as an RGB image."""
    sheet = Image.new("RGB", sheet_size([len(row.cells) for row in rows]), PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((MARGIN, MARGIN), heading, INK, font=ImageFont.load_default(20))
    for row_number, row in enumerate(rows):
        _, top = cell_corner(row_number, 0)
        _write(draw, (MARGIN, top), [row.title], TITLE_WIDTH - 12, INK, 15)
        for column, cell in enumerate(row.cells):
            _place(sheet, draw, cell, cell_corner(row_number, column))
    return sheet


def _place(sheet: Image.Image, draw: ImageDraw.ImageDraw, cell: Cell, corner: tuple[int, int]) -> None:
    left, top = corner
    if cell.image is None:
        draw.rectangle((left, top, left + IMAGE_SIDE - 1, top + IMAGE_SIDE - 1), fill=EMPTY)
        draw.text((left + 8, top + 8), "no image", GREY, font=ImageFont.load_default(12))
    else:
        sheet.paste(cell.image.convert("RGB").resize((IMAGE_SIDE, IMAGE_SIDE)), corner)
    _write(draw, (left, top + IMAGE_SIDE + 6), cell.caption, CELL_WIDTH - 12, GREY, 12)


def _write(
    draw: ImageDraw.ImageDraw,
    corner: tuple[int, int],
    lines: Sequence[str],
    width: int,
    colour: tuple[int, int, int],
    size: int,
) -> None:
    font = ImageFont.load_default(size)
    left, top = corner
    for line in [part for text in lines for part in wrapped(text, width, font.getlength)]:
        draw.text((left, top), line, colour, font=font)
        top += LINE_HEIGHT + max(0, size - 12)
