"""Second stage: from what is encoded to latents, step by step; the one that a worker is there for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from shared.errors import GenerationFailed
from worker.engine_types import Drawing
from worker.stages.encode import Encoded
from worker.stages.failures import failures_told

OnStep = Callable[[int, int], None]


def denoise(pipeline: Any, drawing: Drawing, encoded: Encoded, on_step: OnStep) -> torch.Tensor:
    """Latents in the pipeline's own form, of one image.

    Raises ``GenerationFailed`` if the pipeline fails or they are not finite; what ``on_step`` raises passes through.
    """
    steps = _Steps(on_step, drawing.steps)
    with failures_told(lambda error: error is steps.raised), torch.no_grad():
        found: torch.Tensor = pipeline(
            **encoded.arguments,
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
        return found


class _Steps:
    """Passes progress on, and remembers what that raised, to tell it from the pipeline's own failures."""

    def __init__(self, on_step: OnStep, steps: int) -> None:
        self._on_step = on_step
        self._steps = steps
        self.raised: BaseException | None = None

    def __call__(self, pipeline: Any, index: int, _timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
        try:
            if index + 1 == pipeline.num_timesteps and not torch.isfinite(tensors["latents"]).all():
                raise GenerationFailed("The image is not finite; the adapters may be too strong for this base model.")
            # Some schedulers take one step more than they are asked for.
            self._on_step(min(index + 1, self._steps), self._steps)
        except BaseException as error:
            self.raised = error
            raise
        return tensors
