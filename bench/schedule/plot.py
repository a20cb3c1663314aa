"""The main scenarios as bars: swaps and waits of each policy, in parts of those of the order of arrival.

Drawn with Pillow, which Hotslot has anyway: bars are not worth a plotting library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from bench.schedule.report import Report, Row
from bench.schedule.scenarios import A_COLD, A_WARM, B_COLD, B_FLEET, B_WARM, Scenario

SHOWN: tuple[tuple[str, Scenario], ...] = (
    ("trace a\n3 s swaps", A_COLD),
    ("trace b\n3 s swaps", B_COLD),
    ("trace b, 8 workers\n3 s swaps", B_FLEET),
    ("trace a\n20 ms swaps", A_WARM),
    ("trace b\n20 ms swaps", B_WARM),
)
COLOURS = {"arrival": "#9aa0a6", "age-limit": "#c8a45c", "greedy": "#c0605a", "streak": "#6f8fb8", "ours": "#2f7d54"}

WIDTH, PANEL, MARGIN, TOP, BAR = 1120, 300, 60, 46, 34
GROUP = len(COLOURS) * BAR + 36
SCALE = 1.2
"""The value at the top of a panel."""


def draw(report: Report, path: Path) -> None:
    """Write the picture as PNG."""
    image = Image.new("RGB", (WIDTH, 2 * PANEL + TOP), "white")
    pen = ImageDraw.Draw(image)
    _legend(pen)
    _panel(pen, report, TOP, "swaps, in parts of those in order of arrival", lambda row: row["swaps_per_job"])
    _panel(pen, report, TOP + PANEL, "99th percentile of waits, likewise", lambda row: row["p99_wait_s"])
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)


def _legend(pen: ImageDraw.ImageDraw) -> None:
    for number, (policy, colour) in enumerate(COLOURS.items()):
        left = MARGIN + number * 130
        pen.rectangle((left, 16, left + 16, 32), fill=colour)
        pen.text((left + 24, 24), policy, fill="black", font=_font(15), anchor="lm")


def _panel(pen: ImageDraw.ImageDraw, report: Report, top: int, title: str, value: Callable[[Row], float]) -> None:
    floor, height = top + PANEL - 60, PANEL - 100
    pen.text((MARGIN, top + 8), title, fill="black", font=_font(16))
    for mark in (0.5, 1.0):
        y = floor - height * mark / SCALE
        pen.line((MARGIN, y, WIDTH - 20, y), fill="#dddddd")
        pen.text((MARGIN - 8, y), f"{mark:.1f}", fill="#555555", font=_font(13), anchor="rm")
    for number, (label, scenario) in enumerate(SHOWN):
        left = MARGIN + 10 + number * GROUP
        base = value(report.row(scenario, "arrival"))
        ratios = [value(report.row(scenario, policy)) / base for policy in COLOURS]
        _bars(pen, ratios, left, floor, height)
        middle = left + len(COLOURS) * BAR / 2
        pen.multiline_text((middle, floor + 6), label, fill="black", font=_font(13), anchor="ma", align="center")


def _bars(pen: ImageDraw.ImageDraw, ratios: Sequence[float], left: float, floor: float, height: float) -> None:
    for number, (ratio, colour) in enumerate(zip(ratios, COLOURS.values(), strict=True)):
        x, y = left + number * BAR, floor - height * min(ratio, SCALE) / SCALE
        pen.rectangle((x, y, x + BAR - 4, floor), fill=colour)
        pen.text((x + BAR / 2 - 2, y - 2), f"{ratio:.2f}", fill="black", font=_font(11), anchor="mb")


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
