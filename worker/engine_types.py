"""What the path asks of an engine: plain values, no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from shared.job import AppliedAdapterRecord
from worker.memory import AdapterMemory

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Pixels = npt.NDArray[np.uint8]

Prepared = Any
"""An engine's own form of adapters that are read, verified and converted."""


@dataclass(frozen=True)
class AdapterFile:
    """One adapter to apply: its file, the bytes it must have (SHA-256, hex), and its strength."""

    source: str
    path: Path
    sha256: str
    scale: float
    revision: str | None = None


@dataclass(frozen=True)
class SwapReport:
    """``fingerprint``: from the slot's own tensors. ``changed``: whether the slot was rewritten."""

    applied: tuple[AppliedAdapterRecord, ...]
    fingerprint: str
    changed: bool


@dataclass(frozen=True)
class Drawing:
    """One image to draw; sizes in pixels."""

    prompt: str
    negative_prompt: str | None
    width: int
    height: int
    steps: int
    guidance_scale: float
    seed: int


@dataclass(frozen=True)
class Latents:
    """An image before it is decoded. ``values``: an engine's own. ``timings_ms``: encode_prompt, denoise."""

    drawing: Drawing
    values: Any
    timings_ms: dict[str, float]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class DrawnImage:
    """One image, height x width x 3 of uint8. ``timings_ms``: encode_prompt, denoise, decode."""

    pixels: Pixels
    seed: int
    timings_ms: dict[str, float]
    warnings: tuple[str, ...]


class Engine(Protocol):
    """A resident base model with an adapter slot."""

    @property
    def recipe(self) -> str:
        """The recipe really in force."""

    @property
    def base_revision(self) -> str:
        """Which base model's bytes are loaded."""

    @property
    def library_versions(self) -> Mapping[str, str]:
        """Versions of the libraries that draw."""

    @property
    def memory(self) -> AdapterMemory:
        """The adapters that were converted and are kept."""

    @property
    def recompiles(self) -> int:
        """How many graphs were compiled since the warm-up."""

    def warm(self) -> None:
        """Draw and compile what no job is to wait for."""

    def prepare(self, adapters: Sequence[AdapterFile]) -> Prepared:
        """Read, verify and convert; touches no slot. Safe from any thread. Raises ``AdapterError``."""

    def swap(self, prepared: Prepared) -> SwapReport:
        """Write the slot and read it back. Raises ``SlotCorrupt`` when it does not hold what was written."""

    def encode_ahead(self, drawing: Drawing, prepared: Prepared) -> None:
        """Encode the prompt of a coming job where that is possible now. Safe from any thread, while another draws."""

    def denoise(self, drawing: Drawing, on_step: Callable[[int, int], None]) -> Latents:
        """Draw one image up to its latents, with what the slot holds.

        Calls ``on_step(done, steps)`` after each step, and what that raises passes through.
        """

    def decode(self, latents: Latents) -> DrawnImage:
        """The image of these latents, whatever the slot holds meanwhile. Safe from one other thread."""
