"""SD 1.5 and its fine-tunes: one text encoder, classifier-free guidance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.catalogue import Sampling
from shared.families.sd15 import SD15 as LAYERS
from worker.families.family import TorchFamily
from worker.libraries import StableDiffusionPipeline


def negative_prompt(said: str | None, _sampling: Sampling) -> Mapping[str, Any]:
    """Both Stable Diffusion families take one. None is not the same as an empty one."""
    return {"negative_prompt": said}


def _decode(pipeline: Any, latents: Any, _width: int, _height: int) -> Any:
    # As the end of the pipeline's call does it.
    return pipeline.vae.decode(latents / pipeline.vae.config.scaling_factor, return_dict=False)[0]


SD15 = TorchFamily(
    family=LAYERS,
    pipeline=StableDiffusionPipeline,
    options=negative_prompt,
    encoded=("prompt_embeds", "negative_prompt_embeds"),
    decode=_decode,
    guided_twice=True,
    # It would blacken pictures without a word.
    load_options={"safety_checker": None, "requires_safety_checker": False},
)
