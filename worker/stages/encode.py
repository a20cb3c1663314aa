"""First stage: from a prompt to what the denoiser reads of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from shared.catalogue import Sampling
from worker.engine_types import Drawing
from worker.families.family import TorchFamily
from worker.stages.failures import failures_told

Prompt = tuple[str, str | None, bool]
"""What decides about the result beside the encoders: prompt, negative prompt, and whether guidance takes two passes."""


@dataclass(frozen=True)
class Encoded:
    """``arguments``: what the pipeline's call takes instead of the prompt. ``warnings``: what of it was not used."""

    arguments: Mapping[str, torch.Tensor]
    warnings: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        """What it occupies in memory."""
        return sum(tensor.nbytes for tensor in self.arguments.values())

    def on(self, device: torch.device | str) -> Encoded:
        """The same values there."""
        return Encoded({name: tensor.to(device) for name, tensor in self.arguments.items()}, self.warnings)


def prompt_of(family: TorchFamily, drawing: Drawing) -> Prompt:
    """What of this drawing the encoders see; drawings of one prompt may differ in all else."""
    if not family.guided_twice:
        return drawing.prompt, None, False
    return drawing.prompt, drawing.negative_prompt, drawing.guidance_scale > 1


def encode(pipeline: Any, family: TorchFamily, prompt: Prompt, sampling: Sampling) -> Encoded:
    """Raises ``GenerationFailed``. Never from two threads at once: tokenizers are changed while they work."""
    text, negative, guided = prompt
    twice = {"do_classifier_free_guidance": guided} if family.guided_twice else {}
    with failures_told(), torch.no_grad():
        found = pipeline.encode_prompt(
            text,
            device=pipeline._execution_device,
            num_images_per_prompt=1,
            **twice,
            **family.options(negative, sampling),
        )
        arguments = {name: tensor for name, tensor in zip(family.encoded, found, strict=True) if name}
        # What takes only one pass has no tensor for the other.
        there = {name: tensor for name, tensor in arguments.items() if tensor is not None}
        return Encoded(there, tuple(_truncations(pipeline, family, text, sampling)))


def _truncations(pipeline: Any, family: TorchFamily, prompt: str, sampling: Sampling) -> Iterator[str]:
    tokens, most = _tokens(pipeline, family.tokenizer, prompt)
    taken = min(most, sampling.max_prompt_tokens)
    if tokens > taken:
        yield f"The prompt was truncated: {taken} of its {tokens} tokens were used."
    if family.summary_tokenizer is not None:
        short, most = _tokens(pipeline, family.summary_tokenizer, prompt)
        if short > most:
            yield f"The prompt's summary (CLIP) was truncated: {most} of its {short} tokens were used."


def _tokens(pipeline: Any, name: str, prompt: str) -> tuple[int, int]:
    """How many tokens the prompt has for this tokenizer, and how many it takes at most."""
    tokenizer = getattr(pipeline, name)
    return len(tokenizer(prompt).input_ids), tokenizer.model_max_length
