"""An adapter file that can be looked into without fetching it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shared.sources.identity import Identity

ReadRange = Callable[[int, int], bytes]
"""(offset, length) to the bytes there; fewer only where the file ends."""

FIRST_BYTES = 64 * 1024
"""Read together with the size; holds the whole header of most adapters."""
MOST_PIECE_BYTES = 16 << 20
"""The longest range that is read into memory at once."""


@dataclass(frozen=True)
class Opened:
    """``size_bytes``: of the whole file. ``read_range`` raises what opening raised, and AdapterChanged.

    Each range is of the very version that ``identity`` names, and at most ``MOST_PIECE_BYTES`` long.
    """

    identity: Identity
    size_bytes: int
    read_range: ReadRange

    @property
    def sha256(self) -> str | None:
        """Hex, where the source tells it without reading the file."""
        return self.identity.sha256


def check_piece(length: int) -> None:
    """``ValueError`` for a range that is not to be read into memory at once."""
    if not 0 <= length <= MOST_PIECE_BYTES:
        raise ValueError(f"a range of {length} bytes is not read at once")
