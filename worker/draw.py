"""One image from a pipeline: encode the prompt, denoise step by step, decode; each step timed and checked."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from shared.catalogue import Sampling
from shared.errors import GenerationFailed
from worker.engine_types import Drawing, DrawnImage
from worker.families.family import TorchFamily

log = logging.getLogger(__name__)

OnStep = Callable[[int, int], None]


def draw(pipeline: Any, family: TorchFamily, drawing: Drawing, on_step: OnStep, sampling: Sampling) -> DrawnImage:
    """The image that ``pipeline(prompt=..., generator=...)`` makes, bit for bit, with progress, timings and warnings.

    Raises ``GenerationFailed`` if the pipeline fails or the result is not finite; what ``on_step`` raises passes
    through.
    """
    steps = _Steps(on_step, drawing.steps)
    started_s = time.perf_counter()
    try:
        with torch.no_grad():
            encoded = _encode(pipeline, family, drawing, sampling)
            encoded_s = time.perf_counter()
            values = _generate(pipeline, drawing, encoded, steps)
    except (RuntimeError, ValueError) as error:
        if error is steps.raised:
            raise
        # A library's own words can name paths of this machine, so they go to the log alone.
        log.warning("the pipeline failed", exc_info=True)
        raise GenerationFailed(f"The pipeline failed on this job ({type(error).__name__}); try it again.") from error
    timings_ms = {
        "encode_prompt": (encoded_s - started_s) * 1000,
        "denoise": (steps.ended_s - encoded_s) * 1000,
        "decode": (time.perf_counter() - steps.ended_s) * 1000,
    }
    warnings = tuple(_warnings(pipeline, family, drawing, sampling))
    return DrawnImage(_pixels(values, drawing), drawing.seed, timings_ms, warnings)


class _Steps:
    """Passes progress on, and remembers what that raised, to tell it from the pipeline's own failures."""

    def __init__(self, on_step: OnStep, steps: int) -> None:
        self._on_step = on_step
        self._steps = steps
        self.raised: BaseException | None = None
        self.ended_s = time.perf_counter()

    def __call__(self, pipeline: Any, index: int, _timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
        try:
            if index + 1 == pipeline.num_timesteps and not torch.isfinite(tensors["latents"]).all():
                raise GenerationFailed("The image is not finite; the adapters may be too strong for this base model.")
            # Some schedulers take one step more than they are asked for.
            self._on_step(min(index + 1, self._steps), self._steps)
        except BaseException as error:
            self.raised = error
            raise
        self.ended_s = time.perf_counter()
        return tensors


def _encode(pipeline: Any, family: TorchFamily, drawing: Drawing, sampling: Sampling) -> dict[str, Any]:
    """What the pipeline's call takes instead of the prompt."""
    twice = {"do_classifier_free_guidance": drawing.guidance_scale > 1} if family.guided_twice else {}
    found = pipeline.encode_prompt(
        drawing.prompt,
        device=pipeline._execution_device,
        num_images_per_prompt=1,
        **twice,
        **family.options(drawing.negative_prompt, sampling),
    )
    return {name: tensor for name, tensor in zip(family.encoded, found, strict=True) if name}


def _generate(pipeline: Any, drawing: Drawing, encoded: dict[str, Any], steps: _Steps) -> Any:
    """Height x width x 3 from 0 to 1, of float32."""
    return pipeline(
        **encoded,
        width=drawing.width,
        height=drawing.height,
        num_inference_steps=drawing.steps,
        guidance_scale=drawing.guidance_scale,
        # On the CPU, so that the same seed draws the same noise whatever the device.
        generator=torch.Generator("cpu").manual_seed(drawing.seed),
        output_type="np",
        callback_on_step_end=steps,
        return_dict=False,
    )[0][0]


def _pixels(values: Any, drawing: Drawing) -> Any:
    if not np.isfinite(values).all():
        raise GenerationFailed("The decoded image is not finite.")
    pixels = (values * 255).round().astype(np.uint8)
    if pixels.shape != (drawing.height, drawing.width, 3):
        # The pipeline rounds sizes down without a word.
        raise GenerationFailed(f"The image came out as {pixels.shape} instead of {drawing.height} x {drawing.width}.")
    return pixels


def _warnings(pipeline: Any, family: TorchFamily, drawing: Drawing, sampling: Sampling) -> Iterator[str]:
    tokens, most = _tokens(pipeline, family.tokenizer, drawing.prompt)
    taken = min(most, sampling.max_prompt_tokens)
    if tokens > taken:
        yield f"The prompt was truncated: {taken} of its {tokens} tokens were used."
    if family.summary_tokenizer is not None:
        short, most = _tokens(pipeline, family.summary_tokenizer, drawing.prompt)
        if short > most:
            yield f"The prompt's summary (CLIP) was truncated: {most} of its {short} tokens were used."
    if drawing.negative_prompt and not sampling.negative_prompt:
        yield "The negative prompt has no effect on this base model."


def _tokens(pipeline: Any, name: str, prompt: str) -> tuple[int, int]:
    """How many tokens the prompt has for this tokenizer, and how many it takes at most."""
    tokenizer = getattr(pipeline, name)
    return len(tokenizer(prompt).input_ids), tokenizer.model_max_length
