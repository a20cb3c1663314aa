"""The engine: one resident base model, its adapter slot, and the three steps of a job that need torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import safetensors
import torch

from shared.adapters.base import BaseLayers
from shared.catalogue import BaseModelEntry
from shared.errors import AdapterError
from shared.families.flux import FLUX
from shared.job import AppliedAdapterRecord
from worker.compact import CompactAdapter, CompactCache, CompactLayer
from worker.compose import check_ranks, compose, in_order
from worker.convert import read_adapter
from worker.draw import draw
from worker.engine_types import AdapterFile, Drawing, DrawnImage, SwapReport
from worker.flux import supported_layers
from worker.libraries import FluxPipeline, diffusers, peft, transformers
from worker.load import load_pipeline, set_threads, slot_dtype
from worker.slot import Slot

CACHE_BYTES = 1 << 30
"""Default cap of the converted adapters that are kept in memory."""


@dataclass(frozen=True)
class PreparedAdapters:
    """Adapters read and converted, in the order of the request."""

    files: tuple[AdapterFile, ...]
    adapters: tuple[CompactAdapter, ...]

    @property
    def weighted(self) -> list[tuple[CompactAdapter, float]]:
        """Each with its strength."""
        return [(adapter, file.scale) for adapter, file in zip(self.adapters, self.files, strict=True)]


class DiffusersEngine:
    """A FLUX pipeline of diffusers with Hotslot's slot; implements ``Engine``."""

    def __init__(
        self, pipeline: FluxPipeline, entry: BaseModelEntry, base_revision: str, cache_bytes: int = CACHE_BYTES
    ) -> None:
        """The pipeline is on its device already; no adapter may be loaded in it."""
        self._pipeline = pipeline
        self._entry = entry
        self._base_revision = base_revision
        self._shapes = supported_layers(pipeline.transformer)
        self._slot = Slot(pipeline.transformer, self._shapes, entry.slot.top_rank)
        named = {f"{FLUX.denoiser}.{name}": shape for name, shape in self._shapes.items()}
        self._base = BaseLayers(FLUX, named, entry.slot.top_rank)
        self._cache = CompactCache(cache_bytes)

    @classmethod
    def load(cls, entry: BaseModelEntry, threads: int | None = None) -> DiffusersEngine:
        """Load the base model of this catalogue entry and inject its slot; ``Misconfigured`` if it cannot be.

        ``threads``: CPU threads of torch, see ``set_threads``. Pictures are promised to be bit-equal only between
        processes of the same number.
        """
        set_threads(entry, threads)
        pipeline, revision = load_pipeline(entry)
        return cls(pipeline, entry, revision)

    @property
    def recipe(self) -> str:
        """The recipe in force, with what decides about the last bits."""
        threads = f", {torch.get_num_threads()} threads" if self._entry.device == "cpu" else ""
        return f"{self._entry.recipe}, {self._entry.dtype}, {self._entry.device}{threads}"

    @property
    def base_revision(self) -> str:
        """Which base model's bytes are loaded."""
        return self._base_revision

    @property
    def library_versions(self) -> Mapping[str, str]:
        """Versions of the libraries that draw."""
        modules = (torch, diffusers, peft, transformers, safetensors)
        return {module.__name__: str(module.__version__) for module in modules}

    def warm(self) -> None:
        """Draw one picture without adapters, so that the first job does not pay for it."""
        self.swap(self.prepare(()))
        sizes, sampling = self._entry.sizes, self._entry.sampling
        self.draw(
            Drawing(
                prompt="warm",
                negative_prompt=None,
                width=sizes.default_width,
                height=sizes.default_height,
                steps=1,
                guidance_scale=sampling.default_guidance_scale,
                seed=0,
            ),
            lambda done, steps: None,
        )

    def prepare(self, adapters: Sequence[AdapterFile]) -> PreparedAdapters:
        """Read, verify and convert, or take from the cache by hash; touches no slot. Raises ``AdapterError``."""
        prepared = PreparedAdapters(tuple(adapters), tuple(self._compact(file) for file in adapters))
        check_ranks(prepared.weighted, self._entry.slot.top_rank)
        return prepared

    def swap(self, prepared: PreparedAdapters) -> SwapReport:
        """Make the slot hold just these adapters at their strengths, and read it back.

        Raises ``AdapterNotFinite`` before anything is written; ``SlotCorrupt`` if what is read back is not what was
        written. After any exception the slot is zeroed and proven empty before it is used again.
        """
        weighted = prepared.weighted
        key = tuple((adapter.sha256, scale) for adapter, scale in in_order(weighted))
        changed = not self._slot.holds(key)
        fingerprint = self._slot.fill(key, _unprefixed(compose(weighted))) if changed else self._slot.check()
        applied = tuple(map(_applied, prepared.files, prepared.adapters))
        return SwapReport(applied=applied, fingerprint=fingerprint, changed=changed)

    def draw(self, drawing: Drawing, on_step: Callable[[int, int], None]) -> DrawnImage:
        """Draw one image with what the slot holds; calls ``on_step(done, steps)`` after each step.

        What ``on_step`` raises passes through. Raises ``GenerationFailed`` if the pipeline fails or the result is not
        finite, ``SlotCorrupt`` if it is not known what the slot holds.
        """
        self._slot.require_known()
        return draw(self._pipeline, drawing, on_step, self._entry.sampling)

    def _compact(self, file: AdapterFile) -> CompactAdapter:
        kept = self._cache.get(file.sha256)
        if kept is not None:
            return kept
        try:
            adapter = read_adapter(file.path, file.sha256, self._base, slot_dtype(self._entry))
        except AdapterError as error:
            message = f"adapter {file.source!r}: {error.message}"
            raise type(error)(message, field="adapters", reason=error.reason) from error
        self._cache.put(adapter)
        return adapter


def _unprefixed(content: Mapping[str, CompactLayer]) -> dict[str, CompactLayer]:
    return {name.removeprefix(f"{FLUX.denoiser}."): layer for name, layer in content.items()}


def _applied(file: AdapterFile, adapter: CompactAdapter) -> AppliedAdapterRecord:
    return AppliedAdapterRecord(
        source=file.source,
        revision=file.revision,
        sha256=adapter.sha256,
        rank=adapter.rank,
        scale=file.scale,
        layers_applied=len(adapter.layers),
        text_encoder_layers=0,
    )
