"""What every kind of remote source can do: be looked into, and be downloaded from any byte on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from shared.errors import AdapterTooLarge
from shared.sources.identity import Identity
from shared.sources.opened import Opened

OnSize = Callable[[int], None]
"""Told the size of the whole file in bytes, before its first piece."""
Sink = Callable[[bytes], None]
"""Takes the next piece of a file."""

Source = TypeVar("Source", contravariant=True)


class Origin(Protocol[Source]):
    """One kind of source. Safe from any thread; open it after a fork, not before.

    Both methods raise UnknownAdapter (not there), AdapterForbidden, AdapterTooLarge, AddressRefused, or
    SourceUnavailable, which may pass. No message holds a secret.
    """

    def open(self, source: Source, budget_s: float) -> Opened:
        """Find out size and version. Raises also AdapterUnpinnable, AdapterAmbiguous."""

    def download(
        self, source: Source, identity: Identity, begin_bytes: int, on_size: OnSize, sink: Sink, budget_s: float
    ) -> None:
        """Hand the file's bytes from ``begin_bytes`` on to ``sink``, in order, to the end.

        Raises also AdapterChanged, before the first byte, when the version there is not that of ``identity``. What
        the callbacks raise passes through.
        """


def check_size(size_bytes: int, largest_bytes: int) -> None:
    """Raise ``AdapterTooLarge`` for a file that the operator does not take."""
    if size_bytes > largest_bytes:
        raise AdapterTooLarge(
            f"the file has {size_bytes} bytes; at most {largest_bytes} are taken here, so use a smaller adapter."
        )


CHANGED = "the file at its source is no longer the one that the job was admitted with; submit the job again."
