"""Bringing adapters into memory: located or fetched, read, verified, converted. For the job at hand and those ahead."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from shared import adapter_files
from shared.errors import AdapterChanged, UnknownAdapter
from shared.groups import short
from shared.job import PinnedAdapter
from shared.meters import Tier
from shared.sources.identity import Identity
from shared.sources.source import is_remote
from worker.adapter_cache import Held
from worker.engine_types import AdapterFile, Engine, Prepared
from worker.fetch import Fetcher
from worker.tally import Tally

MOST_NAMES = 4096
"""Adapters whose names are remembered; beyond that, only of those in memory."""


class Supply:
    """Safe from any thread: two that want the same adapter at once fetch and convert it once."""

    def __init__(
        self,
        engine: Engine,
        fetcher: Fetcher,
        builtin_adapters: Mapping[str, Path],
        adapter_folder: Path | None,
        tally: Tally,
    ) -> None:
        self._engine = engine
        self._fetcher = fetcher
        self._builtin_adapters = builtin_adapters
        self._adapter_folder = adapter_folder
        self._tally = tally
        self._sha256s: dict[str, str] = {}
        self._sources: dict[str, str] = {}
        self._guard = threading.Lock()

    def prepare(self, adapters: Sequence[PinnedAdapter], on_progress: Callable[[], None]) -> Prepared:
        """The adapters, ready for a swap. A cached file that went bad on disk is fetched anew, once.

        ``on_progress`` is called while bytes come; what it raises passes through. Raises ``AdapterError``, or what
        ``Fetcher.fetch`` raises.
        """
        held: list[Held] = []
        with ExitStack() as holds:
            try:
                return self._engine.prepare(self._files(adapters, on_progress, holds, held))
            except AdapterChanged:
                damaged = [one for one in held if self._fetcher.drop_damaged(one)]
                if not damaged:
                    raise
            return self._engine.prepare(self._files(adapters, on_progress, holds, []))

    def tier_of(self, adapter: PinnedAdapter) -> Tier:
        """Where it would be taken from now, if it is not in the slot."""
        if self.sha256_of(adapter) in self._engine.memory.sha256s:
            return "memory"
        return "disk" if not is_remote(adapter.location) or self._fetcher.has(_identity(adapter)) else "remote"

    def sha256_of(self, adapter: PinnedAdapter) -> str | None:
        """The hash of its file, as far as it is known: where the source did not tell it, once it was fetched."""
        return adapter.sha256 or self._sha256s.get(adapter.identity)

    def warm(self) -> frozenset[str]:
        """The adapters in memory, as group keys name them."""
        return frozenset(self._by_name())

    def touch(self, names: Iterable[str]) -> None:
        """Let these, of those in memory, count as just used, the last one as the very last; named as in group keys."""
        by_name = self._by_name()
        self._engine.memory.touch([by_name[name] for name in names if name in by_name])

    def pin(self, adapters: Iterable[PinnedAdapter]) -> None:
        """Evict none of these, and only these not, once they are in memory."""
        self._engine.memory.pin({sha256 for adapter in adapters if (sha256 := self.sha256_of(adapter))})

    def shown(self, most: int) -> tuple[str, ...]:
        """Sources of adapters in memory, as they were asked for, the ones used last first."""
        latest = reversed(self._engine.memory.sha256s)
        with self._guard:
            return tuple(self._sources.get(sha256, sha256) for sha256, _ in zip(latest, range(most), strict=False))

    def learn(self, adapter: PinnedAdapter, sha256: str) -> None:
        """This file turned out to be what the adapter means."""
        with self._guard:
            self._sha256s[adapter.identity] = sha256
            self._sources[sha256] = adapter.source
            if len(self._sha256s) > MOST_NAMES:
                kept = frozenset(self._engine.memory.sha256s)
                self._sha256s = {name: known for name, known in self._sha256s.items() if known in kept}
                self._sources = {known: source for known, source in self._sources.items() if known in kept}

    def _by_name(self) -> dict[str, str]:
        kept = frozenset(self._engine.memory.sha256s)
        with self._guard:
            others = {short(name): sha256 for name, sha256 in self._sha256s.items() if sha256 in kept}
        return {short(sha256): sha256 for sha256 in kept} | others

    def _files(
        self, adapters: Sequence[PinnedAdapter], on_progress: Callable[[], None], holds: ExitStack, held: list[Held]
    ) -> list[AdapterFile]:
        """The files on this machine. Those of the cache are added to ``held``, and evicted after ``holds``."""
        found = []
        for adapter in adapters:
            if is_remote(adapter.location):
                one = holds.enter_context(self._fetched(adapter, on_progress))
                held.append(one)
                path, sha256 = one.path, one.sha256
            else:
                path, sha256 = self._locate(adapter), adapter.sha256 or ""
            self.learn(adapter, sha256)
            found.append(AdapterFile(adapter.source, path, sha256, adapter.scale, adapter.revision))
        return found

    def _fetched(self, adapter: PinnedAdapter, on_progress: Callable[[], None]) -> Held:
        identity = _identity(adapter)
        if self._fetcher.has(identity):
            return self._fetcher.fetch(identity, on_progress)
        started_s = time.monotonic()
        held = self._fetcher.fetch(identity, on_progress)
        self._tally.took("fetch", time.monotonic() - started_s)
        return held

    def _locate(self, adapter: PinnedAdapter) -> Path:
        """Where a file lies that needs no fetching; ``UnknownAdapter`` when this worker has none."""
        kind, _, rest = adapter.location.partition(":")
        if kind == "builtin" and rest in self._builtin_adapters:
            return self._builtin_adapters[rest]
        if kind == "file":
            return adapter_files.resolve(self._adapter_folder, rest)
        raise UnknownAdapter(f"adapters: this worker cannot read {adapter.source!r}.", field="adapters")


def _identity(adapter: PinnedAdapter) -> Identity:
    return Identity(adapter.location, adapter.revision, adapter.sha256)
