"""The engine: one resident base model, its adapter slot, and the three steps of a job that need torch."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import safetensors
import torch

from shared.adapter_layers import LayerShape
from shared.catalogue import BaseModelEntry
from shared.errors import AdapterError
from shared.families.family import component_of
from shared.job import AppliedAdapterRecord
from shared.load_plan import LoadPlan
from worker.assemble import Assembly, Tell, assemble, planned
from worker.compiled import State, compilations, sizes_of, uncompiled_unless
from worker.compose import Weighted, check_ranks, compose
from worker.convert import read_adapter
from worker.draw import developed, latents_of
from worker.engine_types import AdapterFile, Drawing, DrawnImage, Latents, SwapReport
from worker.libraries import diffusers, peft, transformers
from worker.load import set_threads, slot_dtype
from worker.memory import AdapterMemory, Memory
from worker.packed import Packed, pack
from worker.prompts import KEPT_BYTES, Encoders, Prompts

log = logging.getLogger(__name__)

MEMORY_BYTES = 1 << 30
"""Default cap of the converted adapters that are kept in memory."""


@dataclass(frozen=True)
class PreparedAdapters:
    """Adapters read and converted, in the order of the request."""

    files: tuple[AdapterFile, ...]
    adapters: tuple[Packed, ...]

    @property
    def weighted(self) -> list[Weighted]:
        """Each with its strength, sorted, so that the order within a request changes nothing."""
        # Minus zero is made zero: both are one strength, but they give other bits.
        pairs = [(adapter, file.scale + 0.0) for adapter, file in zip(self.adapters, self.files, strict=True)]
        return sorted(pairs, key=lambda weighted: (weighted[0].sha256, weighted[1]))


class DiffusersEngine:
    """A pipeline of diffusers with Hotslot's slot; implements ``Engine``."""

    def __init__(self, assembly: Assembly, memory_bytes: int = MEMORY_BYTES, prompt_bytes: int = KEPT_BYTES) -> None:
        """What the steps of a load plan have made. ``prompt_bytes``: most that is kept of encoded prompts."""
        self._pipeline = assembly.pipeline
        self._plan = assembly.plan
        self._entry = assembly.entry
        self._base_revision = assembly.revision
        self._family = assembly.family
        self._dtype = slot_dtype(assembly.entry)
        self._base = assembly.base
        self._states = assembly.states
        self._layouts = assembly.layouts
        self._slot = assembly.slot
        self._compilations: int | None = None
        self._memory: Memory[Packed] = Memory(memory_bytes)
        self._prompts = Prompts(assembly.pipeline, assembly.family, assembly.entry.sampling, prompt_bytes)
        # Components that share a card by taking turns there can only work one after the other.
        self._offloads = assembly.entry.named_recipe.offload != "no"
        self._turn: AbstractContextManager[object] = threading.Lock() if self._offloads else nullcontext()

    @classmethod
    def load(
        cls,
        entry: BaseModelEntry,
        threads: int | None = None,
        memory_bytes: int = MEMORY_BYTES,
        tell: Tell = log.debug,
        prompt_bytes: int = KEPT_BYTES,
    ) -> DiffusersEngine:
        """Load the base model of this catalogue entry as planned for this machine, all but the warm-up.

        ``threads``: CPU threads of torch, see ``set_threads``. Pictures are promised to be bit-equal only between
        processes of the same number. ``tell``: takes each step. Raises ``SetupError`` if it cannot be loaded.
        """
        set_threads(entry, threads)
        return cls(assemble(planned(entry), entry, tell), memory_bytes, prompt_bytes)

    @property
    def plan(self) -> LoadPlan:
        """How it was loaded, and why so."""
        return self._plan

    @property
    def recipe(self) -> str:
        """The recipe in force, with what decides about the last bits."""
        threads = f", {torch.get_num_threads()} threads" if self._entry.device == "cpu" else ""
        recipe = self._entry.named_recipe
        compiled = f"compiled by {recipe.backend}" if recipe.compiles else "eager"
        return f"{compiled}, {self._entry.dtype}, {self._entry.device}{threads}"

    @property
    def base_revision(self) -> str:
        """Which base model's bytes are loaded."""
        return self._base_revision

    @property
    def library_versions(self) -> Mapping[str, str]:
        """Versions of the libraries that draw."""
        modules = (torch, diffusers, peft, transformers, safetensors)
        return {module.__name__: str(module.__version__) for module in modules}

    @property
    def layers(self) -> Mapping[str, LayerShape]:
        """Every layer that an adapter may change, named with its component."""
        return self._base.layers

    @property
    def memory(self) -> AdapterMemory:
        """The adapters that were converted and are kept."""
        return self._memory

    @property
    def prompts(self) -> tuple[int, int]:
        """How many prompts of drawings were found encoded, and how many were not."""
        return self._prompts.hits, self._prompts.misses

    @property
    def recompiles(self) -> int:
        """How many graphs were compiled since the warm-up; anything but 0 makes a job wait for the compiler."""
        return 0 if self._compilations is None else compilations() - self._compilations

    def warm(self) -> None:
        """Draw one picture without adapters, and whatever else is compiled, so that no job pays for it."""
        sizes, sampling = self._entry.sizes, self._entry.sampling
        plain = State(sizes.default_width, sizes.default_height, sampling.default_guidance_scale, None)
        for state in self._states or [plain]:
            if state.rank is None:
                self._slot.clear()
            else:
                self._slot.rehearse(state.rank)
            self.draw(_first_drawing(state), lambda done, steps: None)
        self._slot.clear()
        self._compilations = compilations()

    def prepare(self, adapters: Sequence[AdapterFile]) -> PreparedAdapters:
        """Read, verify and convert, or take from the memory by hash; touches no slot. Raises ``AdapterError``.

        Safe from any thread, also while another one draws.
        """
        prepared = PreparedAdapters(tuple(adapters), tuple(map(self._packed, adapters)))
        check_ranks(prepared.adapters, self._entry.slot.top_rank)
        return prepared

    def swap(self, prepared: PreparedAdapters) -> SwapReport:
        """Make the slot hold just these adapters at their strengths, and read it back.

        Raises ``AdapterNotFinite`` before anything is written; ``SlotCorrupt`` if what is read back is not what was
        written. After any exception the slot is zeroed and proven empty before it is used again.
        """
        weighted = prepared.weighted
        key = tuple((adapter.sha256, scale) for adapter, scale in weighted)
        changed = not self._slot.holds(key)
        composed = compose(weighted, self._layouts) if changed and weighted else None
        with self._prompts.changing(self._encoders_with(prepared)):
            if not changed:
                fingerprint = self._slot.check()
            elif composed:
                fingerprint = self._slot.fill(key, *composed)
            else:
                fingerprint = self._slot.clear()
        applied = tuple(map(self._applied, prepared.files, prepared.adapters))
        return SwapReport(applied=applied, fingerprint=fingerprint, changed=changed)

    def encode_ahead(self, drawing: Drawing, prepared: PreparedAdapters) -> None:
        """Encode the prompt of a coming job, so that its turn finds it done; raises ``GenerationFailed``.

        Does nothing where the job needs other adapters in the text encoders than they have now, or where the encoders
        would have to take the denoiser's place. Safe from any thread, also while another one draws.
        """
        if not self._offloads:
            self._prompts.encode_ahead(drawing, self._encoders_with(prepared))

    def draw(self, drawing: Drawing, on_step: Callable[[int, int], None]) -> DrawnImage:
        """``denoise`` and ``decode``, one after the other."""
        return self.decode(self.denoise(drawing, on_step))

    def denoise(self, drawing: Drawing, on_step: Callable[[int, int], None]) -> Latents:
        """Draw one image up to its latents, with what the slot holds; calls ``on_step(done, steps)`` after each step.

        What ``on_step`` raises passes through. Raises ``GenerationFailed`` if the pipeline fails or the result is not
        finite, ``SlotCorrupt`` if it is not known what the slot holds.
        """
        self._slot.require_known()
        warmed = not self._states or (drawing.width, drawing.height) in sizes_of(self._states)
        before = self.recompiles
        with self._turn, uncompiled_unless(warmed):
            started_s = time.perf_counter()
            encoded = self._prompts.encoded(drawing)
            encode_ms = (time.perf_counter() - started_s) * 1000
            latents = latents_of(self._pipeline, drawing, encoded, on_step, self._entry.sampling, encode_ms)
        if self.recompiles > before:
            log.warning("the denoiser was compiled anew for a picture of %d x %d", drawing.width, drawing.height)
        return latents

    def decode(self, latents: Latents) -> DrawnImage:
        """The image of these latents, whatever the slot holds meanwhile; another thread may denoise the next ones.

        Raises ``GenerationFailed`` if the autoencoder fails or the result is not finite.
        """
        with self._turn:
            return developed(self._pipeline, self._family, latents)

    def _encoders_with(self, prepared: PreparedAdapters) -> Encoders:
        """What the text encoders have while these are in the slot."""
        denoiser = self._family.family.denoiser
        return tuple(
            (adapter.sha256, scale)
            for adapter, scale in prepared.weighted
            if any(component_of(layer) != denoiser for layer, _ in adapter.ranks)
        )

    def _packed(self, file: AdapterFile) -> Packed:
        return self._memory.get_or_make(file.sha256, lambda: self._converted(file))

    def _converted(self, file: AdapterFile) -> Packed:
        try:
            adapter = read_adapter(file.path, file.sha256, self._base, self._dtype)
        except AdapterError as error:
            message = f"adapter {file.source!r}: {error.message}"
            raise type(error)(message, field="adapters", reason=error.reason) from error
        return pack(adapter, self._layouts, self._dtype, pinned=self._entry.device.startswith("cuda"))

    def _applied(self, file: AdapterFile, adapter: Packed) -> AppliedAdapterRecord:
        components = [component_of(layer) for layer, _ in adapter.ranks]
        return AppliedAdapterRecord(
            source=file.source,
            revision=file.revision,
            sha256=adapter.sha256,
            rank=adapter.rank,
            scale=file.scale,
            layers_applied=len(components),
            text_encoder_layers=len(components) - components.count(self._family.family.denoiser),
        )


def _first_drawing(state: State) -> Drawing:
    return Drawing("warm", None, state.width, state.height, 1, state.guidance_scale, 0)
