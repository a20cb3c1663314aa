"""What prompts were encoded to, kept for the next job with the same prompt and the same encoders."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from worker.stages.encode import Encoded


class Embeddings:
    """Least recently used go first, by bytes. Not safe from several threads at once."""

    def __init__(self, cap_bytes: int) -> None:
        self._cap_bytes = cap_bytes
        self._size_bytes = 0
        self._kept: OrderedDict[Hashable, Encoded] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable) -> Encoded | None:
        """What was kept under this key; it counts as just used."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: Hashable, encoded: Encoded) -> None:
        """Keep it, unless it alone is larger than the cap."""
        if key in self._kept:
            self._size_bytes -= self._kept.pop(key).size_bytes
        if encoded.size_bytes > self._cap_bytes:
            return
        while self._size_bytes + encoded.size_bytes > self._cap_bytes:
            self._size_bytes -= self._kept.popitem(last=False)[1].size_bytes
        self._kept[key] = encoded
        self._size_bytes += encoded.size_bytes
