"""One image from a pipeline: encode the prompt, denoise step by step, decode; each step timed and checked."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from shared.catalogue import Sampling
from shared.errors import GenerationFailed
from worker.engine_types import Drawing, DrawnImage
from worker.libraries import FluxPipeline

log = logging.getLogger(__name__)

OnStep = Callable[[int, int], None]


def draw(pipeline: FluxPipeline, drawing: Drawing, on_step: OnStep, sampling: Sampling) -> DrawnImage:
    """The image that ``pipeline(prompt=..., generator=...)`` makes, bit for bit, with progress, timings and warnings.

    Raises ``GenerationFailed`` if the pipeline fails or the result is not finite; what ``on_step`` raises passes
    through.
    """
    timings_ms: dict[str, float] = {}
    steps = _Steps(on_step, drawing.steps)
    try:
        with torch.no_grad():
            with _timed(timings_ms, "encode_prompt"):
                embeddings, pooled, _ = pipeline.encode_prompt(
                    drawing.prompt, max_sequence_length=sampling.max_prompt_tokens
                )
            with _timed(timings_ms, "denoise"):
                latents = _denoise(pipeline, drawing, embeddings, pooled, steps)
            with _timed(timings_ms, "decode"):
                pixels = _decode(pipeline, drawing, latents)
    except (RuntimeError, ValueError) as error:
        if error is steps.raised:
            raise
        # A library's own words can name paths of this machine, so they go to the log alone.
        log.warning("the pipeline failed", exc_info=True)
        raise GenerationFailed(f"The pipeline failed on this job ({type(error).__name__}); try it again.") from error
    return DrawnImage(pixels, drawing.seed, timings_ms, tuple(_warnings(pipeline, drawing, sampling)))


class _Steps:
    """Passes progress on, and remembers what that raised, to tell it from the pipeline's own failures."""

    def __init__(self, on_step: OnStep, steps: int) -> None:
        self._on_step = on_step
        self._steps = steps
        self.raised: BaseException | None = None

    def __call__(self, _pipeline: Any, index: int, _timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
        try:
            self._on_step(index + 1, self._steps)
        except BaseException as error:
            self.raised = error
            raise
        return tensors


def _denoise(
    pipeline: FluxPipeline, drawing: Drawing, embeddings: torch.Tensor, pooled: torch.Tensor, steps: _Steps
) -> torch.Tensor:
    latents: torch.Tensor = pipeline(
        prompt_embeds=embeddings,
        pooled_prompt_embeds=pooled,
        width=drawing.width,
        height=drawing.height,
        num_inference_steps=drawing.steps,
        guidance_scale=drawing.guidance_scale,
        # On the CPU, so that the same seed draws the same noise whatever the device.
        generator=torch.Generator("cpu").manual_seed(drawing.seed),
        output_type="latent",
        callback_on_step_end=steps,
        return_dict=False,
    )[0]
    if not torch.isfinite(latents).all():
        raise GenerationFailed("The image is not finite; the adapters may be too strong for this base model.")
    return latents


def _decode(pipeline: FluxPipeline, drawing: Drawing, latents: torch.Tensor) -> Any:
    vae = pipeline.vae
    unpacked = pipeline._unpack_latents(latents, drawing.height, drawing.width, pipeline.vae_scale_factor)
    image = vae.decode(unpacked / vae.config.scaling_factor + vae.config.shift_factor, return_dict=False)[0]
    if not torch.isfinite(image).all():
        raise GenerationFailed("The decoded image is not finite.")
    values = pipeline.image_processor.postprocess(image, output_type="np")[0]
    pixels = (values * 255).round().astype(np.uint8)
    if pixels.shape != (drawing.height, drawing.width, 3):
        # The pipeline rounds sizes down without a word.
        raise GenerationFailed(f"The image came out as {pixels.shape} instead of {drawing.height} x {drawing.width}.")
    return pixels


def _warnings(pipeline: FluxPipeline, drawing: Drawing, sampling: Sampling) -> Iterator[str]:
    tokens = len(pipeline.tokenizer_2(drawing.prompt).input_ids)
    if tokens > sampling.max_prompt_tokens:
        yield f"The prompt was truncated: {sampling.max_prompt_tokens} of its {tokens} tokens were used."
    short, taken = len(pipeline.tokenizer(drawing.prompt).input_ids), pipeline.tokenizer_max_length
    if short > taken:
        yield f"The prompt's summary (CLIP) was truncated: {taken} of its {short} tokens were used."
    if drawing.negative_prompt and not sampling.negative_prompt:
        yield "The negative prompt has no effect on this base model."


@contextmanager
def _timed(timings_ms: dict[str, float], name: str) -> Iterator[None]:
    started_s = time.perf_counter()
    yield
    timings_ms[name] = (time.perf_counter() - started_s) * 1000
