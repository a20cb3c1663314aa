"""Converted adapters in this worker's memory, by bytes: the least recently used go first, pinned ones never."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import Generic, Protocol, TypeVar
from weakref import WeakValueDictionary


class Kept(Protocol):
    """An adapter in whatever form."""

    @property
    def sha256(self) -> str:
        """Of its file."""

    @property
    def size_bytes(self) -> int:
        """What it occupies in memory."""


K = TypeVar("K", bound=Kept)


class AdapterMemory(Protocol):
    """What is told of the memory to those who do not convert."""

    @property
    def sha256s(self) -> tuple[str, ...]:
        """Files whose adapters are here, the one used last at the end."""

    @property
    def size_bytes(self) -> int:
        """What they occupy."""

    @property
    def made(self) -> int:
        """How many were converted so far."""

    @property
    def made_s(self) -> float:
        """What that took in all, seconds."""

    def touch(self, sha256s: Iterable[str]) -> None:
        """Let these count as just used, the last one as the very last."""

    def pin(self, sha256s: Collection[str]) -> None:
        """Evict none of these from now on, whether they are here already or come later; all others may go."""


class Memory(Generic[K]):
    """Safe from any thread; implements ``AdapterMemory``. It never holds more than its cap."""

    def __init__(self, cap_bytes: int) -> None:
        self._cap_bytes = cap_bytes
        self._size_bytes = 0
        self._kept: OrderedDict[str, K] = OrderedDict()
        self._pinned: frozenset[str] = frozenset()
        self._made = 0
        self._made_s = 0.0
        self._guard = threading.Lock()
        self._making: WeakValueDictionary[str, _Making] = WeakValueDictionary()

    @property
    def sha256s(self) -> tuple[str, ...]:
        """See ``AdapterMemory``."""
        with self._guard:
            return tuple(self._kept)

    @property
    def size_bytes(self) -> int:
        """See ``AdapterMemory``."""
        return self._size_bytes

    @property
    def made(self) -> int:
        """See ``AdapterMemory``."""
        return self._made

    @property
    def made_s(self) -> float:
        """See ``AdapterMemory``."""
        return self._made_s

    def touch(self, sha256s: Iterable[str]) -> None:
        """See ``AdapterMemory``."""
        with self._guard:
            for sha256 in sha256s:
                self._get(sha256)

    def pin(self, sha256s: Collection[str]) -> None:
        """See ``AdapterMemory``."""
        with self._guard:
            self._pinned = frozenset(sha256s)

    def get_or_make(self, sha256: str, make: Callable[[], K]) -> K:
        """The adapter of this file, made if it is not here; by one thread, for which the others wait.

        What ``make`` raises passes through; then whoever waited tries it for himself.
        """
        with self._guard:
            if found := self._get(sha256):
                return found
            making = self._making.setdefault(sha256, _Making())
        with making.lock:
            with self._guard:
                if found := self._get(sha256):
                    return found
            started_s = time.monotonic()
            made = make()
            took_s = time.monotonic() - started_s
            with self._guard:
                self._made, self._made_s = self._made + 1, self._made_s + took_s
                self._put(made)
            return made

    def _get(self, sha256: str) -> K | None:
        found = self._kept.get(sha256)
        if found is not None:
            self._kept.move_to_end(sha256)
        return found

    def _put(self, adapter: K) -> None:
        """Keep it, unless it does not fit beside what is pinned."""
        if self._pinned_bytes() + adapter.size_bytes > self._cap_bytes:
            return
        unpinned = (sha256 for sha256 in tuple(self._kept) if sha256 not in self._pinned)
        while self._size_bytes + adapter.size_bytes > self._cap_bytes:
            self._size_bytes -= self._kept.pop(next(unpinned)).size_bytes
        self._kept[adapter.sha256] = adapter
        self._size_bytes += adapter.size_bytes

    def _pinned_bytes(self) -> int:
        return sum(kept.size_bytes for sha256, kept in self._kept.items() if sha256 in self._pinned)


class _Making:
    """One thread is making an adapter."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
