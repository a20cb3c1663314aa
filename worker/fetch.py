"""Fetch an adapter file once, however many want it: from the cache, else from its source, resumed and verified."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from shared.errors import AdapterChanged, CacheFull, Misconfigured, SourceUnavailable
from shared.settings import Settings
from shared.sources.identity import Identity, is_exact
from shared.sources.origin import CHANGED
from shared.sources.source import shown
from shared.sources.sources import Sources
from worker.adapter_cache import AdapterCache, Held, OnWait, Part, sha256_matches

log = logging.getLogger(__name__)

FUTILE_TRIES = 3
"""A source that hangs up so often in a row, without a byte in between, is left alone."""
PAUSE_S = 0.5
STALLED_S = 150.0
"""Longer than a source may be silent: whoever fetches the same file has brought nothing for so long."""


class Fetcher:
    """Hands out adapter files; safe from any thread. Make it after a fork, not before."""

    def __init__(self, sources: Sources, cache: AdapterCache, budget_s: float, pause_s: float = PAUSE_S) -> None:
        self._sources = sources
        self._cache = cache
        self._budget_s = budget_s
        self._pause_s = pause_s

    @classmethod
    def of(cls, settings: Settings) -> Fetcher:
        """The fetcher of these settings; sweeps what dead processes have left."""
        folder = settings.fetched_folder
        try:
            cache = AdapterCache(folder, settings.adapter_cache_bytes, settings.adapter_cache_spare_bytes)
            cache.sweep()
        except OSError as error:
            raise Misconfigured(f"The adapter cache {folder} cannot be used: {error.strerror}.") from error
        return cls(Sources(settings), cache, settings.adapter_fetch_budget_s)

    def fetch(self, identity: Identity, on_progress: Callable[[], None] = lambda: None) -> Held:
        """The file, whole, verified, and not evicted before it is closed.

        ``on_progress`` is called while bytes come, also for another one who fetches the same; what it raises passes
        through, and the next call goes on where this one stopped. Raises ``AdapterChanged`` when the source holds
        other bytes by now, ``SourceUnavailable`` or ``CacheFull``, which may pass, or what else ``Sources.download``
        raises.
        """
        key = identity.key
        if held := self._cache.find(key):
            return held
        with self._cache.part(key, _while_it_grows(on_progress)) as part:
            if held := self._cache.find(key):
                part.path.unlink()
                return held
            started_s = time.monotonic()
            self._verified(identity, part, on_progress)
            log.info(
                "fetched %s: %d bytes in %.1f s",
                shown(identity.location),
                part.size_bytes,
                time.monotonic() - started_s,
            )
            return self._cache.keep(key, part)

    def has(self, identity: Identity) -> bool:
        """Whether it is here, so that ``fetch`` need not ask the source."""
        return self._cache.has(identity.key)

    def drop_damaged(self, held: Held) -> bool:
        """Forget a cached file whose bytes on disk are no longer those that were fetched; whether it was so."""
        if sha256_matches(held):
            return False
        log.error("the cached adapter %s is damaged on disk; fetching it again", held.sha256[:16])
        self._cache.drop(held.sha256)
        return True

    def _verified(self, identity: Identity, part: Part, on_progress: Callable[[], None]) -> None:
        # The last byte again, so that a part which is whole already is no special case.
        part.cut(max(0, part.size_bytes - 1) if is_exact(identity.revision) else 0)
        resumed = part.size_bytes > 0
        self._complete(identity, part, on_progress)
        if identity.sha256 in (None, part.sha256):
            return
        if resumed:
            part.cut(0)
            self._complete(identity, part, on_progress)
        if identity.sha256 != part.sha256:
            part.path.unlink()
            raise AdapterChanged(f"adapters: {shown(identity.location)}: {CHANGED}", field="adapters")

    def _complete(self, identity: Identity, part: Part, on_progress: Callable[[], None]) -> None:
        """Download the rest, and go on after an interruption, as long as each try brings something."""
        end_s, futile = time.monotonic() + self._budget_s, 0
        while True:
            before_bytes = part.size_bytes
            try:
                return self._download(identity, part, on_progress)
            except SourceUnavailable as error:
                futile = 0 if part.size_bytes > before_bytes else futile + 1
                if futile >= FUTILE_TRIES or time.monotonic() > end_s:
                    raise
                log.info("%s", error.message)
            on_progress()
            time.sleep(self._pause_s)
            if not is_exact(identity.revision):
                part.cut(0)

    def _download(self, identity: Identity, part: Part, on_progress: Callable[[], None]) -> None:
        whole_bytes = 0

        def on_size(size_bytes: int) -> None:
            nonlocal whole_bytes
            whole_bytes = size_bytes
            self._cache.make_room(size_bytes - part.size_bytes)

        def sink(piece: bytes) -> None:
            try:
                part.append(piece)
            except OSError as error:
                raise CacheFull(f"this worker's disk does not take the adapter ({error.strerror}).") from error
            on_progress()

        self._sources.download(identity, part.size_bytes, on_size, sink)
        if part.size_bytes != whole_bytes:
            raise SourceUnavailable(f"the source sent {part.size_bytes} of {whole_bytes} bytes; try again.")


def _while_it_grows(on_progress: Callable[[], None]) -> OnWait:
    """Waiting for another one is progress only while that one makes some."""
    seen_bytes, seen_s = -1, 0.0

    def on_wait(size_bytes: int) -> None:
        nonlocal seen_bytes, seen_s
        if size_bytes != seen_bytes:
            seen_bytes, seen_s = size_bytes, time.monotonic()
        elif time.monotonic() > seen_s + STALLED_S:
            raise SourceUnavailable("another job fetches this adapter and gets no further; try again.")
        on_progress()

    return on_wait
