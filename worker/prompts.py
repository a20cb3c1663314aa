"""The prompt stage of an engine: each prompt is encoded once for the adapters that the text encoders have."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shared.catalogue import Sampling
from worker.embeddings import Embeddings
from worker.engine_types import Drawing
from worker.families.family import TorchFamily
from worker.stages.encode import Encoded, encode, prompt_of

Encoders = tuple[tuple[str, float], ...]
"""The adapters that change the text encoders (hash, strength), in canonical order; empty: the base model's own."""

KEPT_BYTES = 256 << 20
"""Default cap of what is kept; FLUX.1 takes 4 MB for a prompt."""


class Prompts:
    """Safe from any thread: encodes one prompt at a time, and none while the encoders' adapters change.

    What is kept lies in the computer's memory, not on the card. ``hits`` and ``misses`` count prompts that jobs needed.
    """

    def __init__(self, pipeline: Any, family: TorchFamily, sampling: Sampling, cap_bytes: int = KEPT_BYTES) -> None:
        self._pipeline = pipeline
        self._family = family
        self._sampling = sampling
        self._kept = Embeddings(cap_bytes)
        self._guard = threading.Lock()
        self._encoders: Encoders | None = ()
        self.hits = 0
        self.misses = 0

    @contextmanager
    def changing(self, encoders: Encoders) -> Iterator[None]:
        """Within it the encoders' adapters may be exchanged for these; if it fails, nobody knows which they have."""
        with self._guard:
            self._encoders = None
            yield
            self._encoders = encoders

    def encoded(self, drawing: Drawing) -> Encoded:
        """Of this drawing's prompt, on the device that denoises. Raises ``GenerationFailed``."""
        with self._guard:
            key = (self._encoders, prompt_of(self._family, drawing))
            found = self._kept.get(key) if self._encoders is not None else None
            self.hits, self.misses = self.hits + (found is not None), self.misses + (found is None)
            if found is not None:
                return found.on(self._pipeline._execution_device)
            return self._encode(drawing)

    def encode_ahead(self, drawing: Drawing, encoders: Encoders) -> None:
        """Encode and keep, if these are what the encoders have now. Raises ``GenerationFailed``."""
        with self._guard:
            if self._encoders == encoders and self._kept.get((encoders, prompt_of(self._family, drawing))) is None:
                self._encode(drawing)

    def _encode(self, drawing: Drawing) -> Encoded:
        prompt = prompt_of(self._family, drawing)
        encoded = encode(self._pipeline, self._family, prompt, self._sampling)
        if self._encoders is not None:
            self._kept.put((self._encoders, prompt), encoded.on("cpu"))
        return encoded
