"""An adapter file that can be looked into without fetching it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shared.sources.identity import Identity

ReadRange = Callable[[int, int], bytes]
"""First byte and the one after the last, to those bytes; fewer where the file ends before."""

FIRST_BYTES = 32 * 1024
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
