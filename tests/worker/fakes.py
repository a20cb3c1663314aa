"""An engine without torch, for tests of the way around it. The real one has tests of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shared.job import AppliedAdapterRecord
from worker.engine_types import AdapterFile, Drawing, DrawnImage, Latents, SwapReport
from worker.memory import Memory


@dataclass(frozen=True)
class FakeAdapter:
    """Something of one byte."""

    sha256: str
    size_bytes: int = 1


@dataclass
class FakeEngine:
    """Paints each image in one grey that depends on the adapters and the seed. Keeps no adapter, unless told to."""

    on_prepare: Callable[[Sequence[AdapterFile]], None] = lambda adapters: None
    on_convert: Callable[[AdapterFile], None] = lambda adapter: None
    memory: Memory[FakeAdapter] = field(default_factory=lambda: Memory(0))
    recompiles: int = 0
    on_draw_step: Callable[[int], None] = lambda done: None
    recipe: str = "fake"
    base_revision: str = "0"
    library_versions: Mapping[str, str] = field(default_factory=dict)
    slot: tuple[AdapterFile, ...] = ()
    drawn: list[tuple[str, ...]] = field(default_factory=list)
    encoded_ahead: list[str] = field(default_factory=list)
    on_decode: Callable[[], None] = lambda: None

    def warm(self) -> None: ...

    def prepare(self, adapters: Sequence[AdapterFile]) -> Any:
        self.on_prepare(adapters)
        for one in adapters:
            self.memory.get_or_make(one.sha256, lambda one=one: self._converted(one))  # type: ignore[misc]
        return tuple(adapters)

    def _converted(self, file: AdapterFile) -> FakeAdapter:
        self.on_convert(file)
        return FakeAdapter(file.sha256)

    def swap(self, prepared: Any) -> SwapReport:
        changed = prepared != self.slot
        self.slot = prepared
        applied = tuple(
            AppliedAdapterRecord(
                source=one.source,
                revision=one.revision,
                sha256=one.sha256,
                rank=4,
                scale=one.scale,
                layers_applied=1,
                text_encoder_layers=0,
            )
            for one in prepared
        )
        return SwapReport(applied, "+".join(one.source for one in prepared), changed)

    def encode_ahead(self, drawing: Drawing, prepared: Any) -> None:
        self.encoded_ahead.append(drawing.prompt)

    def denoise(self, drawing: Drawing, on_step: Callable[[int, int], None]) -> Latents:
        for done in range(1, drawing.steps + 1):
            self.on_draw_step(done)
            on_step(done, drawing.steps)
        self.drawn.append(tuple(one.source for one in self.slot))
        grey = (sum(len(one.source) for one in self.slot) * 16 + drawing.seed) % 256
        return Latents(drawing, grey, {"encode_prompt": 1.0, "denoise": 2.0}, ())

    def decode(self, latents: Latents) -> DrawnImage:
        self.on_decode()
        drawing = latents.drawing
        pixels = np.full((drawing.height, drawing.width, 3), latents.values, dtype=np.uint8)
        return DrawnImage(pixels, drawing.seed, {**latents.timings_ms, "decode": 3.0}, latents.warnings)
