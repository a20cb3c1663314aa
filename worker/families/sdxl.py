"""SDXL and its fine-tunes: two text encoders, classifier-free guidance."""

from __future__ import annotations

from typing import Any

import torch

from shared.families.sdxl import SDXL as LAYERS
from worker.families.family import TorchFamily
from worker.families.sd15 import negative_prompt
from worker.libraries import StableDiffusionXLPipeline


def _decode(pipeline: Any, latents: Any, _width: int, _height: int) -> Any:
    # As the end of the pipeline's call does it: in float16 this autoencoder overflows.
    vae = pipeline.vae
    upcast = vae.dtype == torch.float16 and vae.config.force_upcast
    if upcast:
        pipeline.upcast_vae()
        latents = latents.to(next(iter(vae.post_quant_conv.parameters())).dtype)
    image = vae.decode(_unscaled(latents, vae.config), return_dict=False)[0]
    if upcast:
        vae.to(dtype=torch.float16)
    return image


def _unscaled(latents: Any, config: Any) -> Any:
    mean, deviation = getattr(config, "latents_mean", None), getattr(config, "latents_std", None)
    if mean is None or deviation is None:
        return latents / config.scaling_factor
    mean, deviation = (
        torch.tensor(each).view(1, -1, 1, 1).to(latents.device, latents.dtype) for each in (mean, deviation)
    )
    return latents * deviation / config.scaling_factor + mean


SDXL = TorchFamily(
    family=LAYERS,
    pipeline=StableDiffusionXLPipeline,
    options=negative_prompt,
    encoded=(
        "prompt_embeds",
        "negative_prompt_embeds",
        "pooled_prompt_embeds",
        "negative_pooled_prompt_embeds",
    ),
    decode=_decode,
    guided_twice=True,
    load_options={"add_watermarker": False},
)
