"""One image from a pipeline: encode the prompt, denoise step by step, decode; each stage timed."""

from __future__ import annotations

import time
from typing import Any

from shared.catalogue import Sampling
from worker.engine_types import Drawing, DrawnImage, Latents
from worker.families.family import TorchFamily
from worker.stages.decode import decode
from worker.stages.denoise import OnStep, denoise
from worker.stages.encode import Encoded, encode, prompt_of

NO_NEGATIVE_PROMPT = "The negative prompt has no effect on this base model."


def draw(pipeline: Any, family: TorchFamily, drawing: Drawing, on_step: OnStep, sampling: Sampling) -> DrawnImage:
    """The image that ``pipeline(prompt=..., generator=...)`` makes, bit for bit, with progress, timings and warnings.

    Raises ``GenerationFailed`` if the pipeline fails or the result is not finite; what ``on_step`` raises passes
    through.
    """
    started_s = time.perf_counter()
    encoded = encode(pipeline, family, prompt_of(family, drawing), sampling)
    encode_ms = (time.perf_counter() - started_s) * 1000
    return developed(pipeline, family, latents_of(pipeline, drawing, encoded, on_step, sampling, encode_ms))


def latents_of(
    pipeline: Any, drawing: Drawing, encoded: Encoded, on_step: OnStep, sampling: Sampling, encode_ms: float
) -> Latents:
    """Denoise, and note what it took and what is to be said; ``encode_ms``: what the stage before took."""
    started_s = time.perf_counter()
    values = denoise(pipeline, drawing, encoded, on_step)
    timings_ms = {"encode_prompt": encode_ms, "denoise": (time.perf_counter() - started_s) * 1000}
    unused = drawing.negative_prompt and not sampling.negative_prompt
    return Latents(drawing, values, timings_ms, (*encoded.warnings, *([NO_NEGATIVE_PROMPT] if unused else [])))


def developed(pipeline: Any, family: TorchFamily, latents: Latents) -> DrawnImage:
    """Decode, and note what it took."""
    started_s = time.perf_counter()
    pixels = decode(pipeline, family, latents.drawing, latents.values)
    timings_ms = {**latents.timings_ms, "decode": (time.perf_counter() - started_s) * 1000}
    return DrawnImage(pixels, latents.drawing.seed, timings_ms, latents.warnings)
