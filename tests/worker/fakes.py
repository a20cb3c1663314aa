"""An engine without torch, for tests of the way around it. The real one has tests of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shared.job import AppliedAdapterRecord
from worker.engine_types import AdapterFile, Drawing, DrawnImage, SwapReport


@dataclass
class FakeEngine:
    """Paints each image in one grey that depends on the adapters and the seed."""

    on_prepare: Callable[[Sequence[AdapterFile]], None] = lambda adapters: None
    on_draw_step: Callable[[int], None] = lambda done: None
    recipe: str = "fake"
    base_revision: str = "0"
    recompiles: int = 0
    library_versions: Mapping[str, str] = field(default_factory=dict)
    slot: tuple[AdapterFile, ...] = ()
    drawn: list[tuple[str, ...]] = field(default_factory=list)

    def warm(self) -> None: ...

    def prepare(self, adapters: Sequence[AdapterFile]) -> Any:
        self.on_prepare(adapters)
        return tuple(adapters)

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

    def draw(self, drawing: Drawing, on_step: Callable[[int, int], None]) -> DrawnImage:
        for done in range(1, drawing.steps + 1):
            self.on_draw_step(done)
            on_step(done, drawing.steps)
        self.drawn.append(tuple(one.source for one in self.slot))
        grey = (sum(len(one.source) for one in self.slot) * 16 + drawing.seed) % 256
        pixels = np.full((drawing.height, drawing.width, 3), grey, dtype=np.uint8)
        return DrawnImage(pixels, drawing.seed, {"encode_prompt": 1.0, "denoise": 2.0, "decode": 3.0}, ())
