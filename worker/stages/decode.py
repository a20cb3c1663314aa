"""Third stage: from latents to pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from shared.errors import GenerationFailed
from worker.engine_types import Drawing
from worker.families.family import TorchFamily
from worker.stages.failures import failures_told

if TYPE_CHECKING:
    from worker.engine_types import Pixels


def decode(pipeline: Any, family: TorchFamily, drawing: Drawing, latents: torch.Tensor) -> Pixels:
    """Height x width x 3 of uint8: what the pipeline makes of these latents itself, bit for bit.

    Raises ``GenerationFailed`` if the autoencoder fails or the result is not finite. Another thread may denoise
    meanwhile.
    """
    with failures_told(), torch.no_grad():
        image = family.decode(pipeline, latents, drawing.width, drawing.height)
        # The pipeline cuts its values off at black and white, infinite ones too.
        finite = bool(torch.isfinite(image).all())
        values = pipeline.image_processor.postprocess(image, output_type="np")[0]
        pipeline.maybe_free_model_hooks()
    if not finite:
        raise GenerationFailed("The decoded image is not finite.")
    return _pixels(values, drawing)


def _pixels(values: Any, drawing: Drawing) -> Pixels:
    pixels: Pixels = (values * 255).round().astype(np.uint8)
    if pixels.shape != (drawing.height, drawing.width, 3):
        # The pipeline rounds sizes down without a word.
        raise GenerationFailed(f"The image came out as {pixels.shape} instead of {drawing.height} x {drawing.width}.")
    return pixels
