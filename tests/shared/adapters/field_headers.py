"""Names and shapes of real adapters for FLUX.1-dev, one per dialect: what a file of that kind looks like."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from shared.adapters.header import Header, TensorEntry

DTYPE = "BF16"


@dataclass(frozen=True)
class FieldHeader:
    """``verdict``: what a correct inspection says for FLUX.1-dev. ``rows``: name (# is the block), shape, blocks."""

    name: str
    verdict: str
    rows: list[tuple[str, list[int], int | list[int] | None]]

    def shapes(self, most_blocks: int = 1000) -> dict[str, tuple[int, ...]]:
        """All tensors by name, in blocks below ``most_blocks``."""
        found = {}
        for pattern, shape, blocks in self.rows:
            numbers = range(blocks) if isinstance(blocks, int) else blocks or [-1]
            for number in numbers:
                if number < most_blocks:
                    found[pattern.replace("#", str(number), 1)] = tuple(shape)
        return found

    def header(self) -> Header:
        """The header at full shape."""
        return Header({name: TensorEntry(DTYPE, shape, 0, 0) for name, shape in self.shapes().items()}, {})


def field_headers() -> dict[str, FieldHeader]:
    """All of them, by dialect."""
    raw = json.loads(Path(__file__).with_name("field_headers.json").read_text())
    return {name: FieldHeader(name, entry["verdict"], entry["tensors"]) for name, entry in raw.items()}
