"""SDXL and its fine-tunes: two text encoders, classifier-free guidance."""

from __future__ import annotations

from shared.families.sdxl import SDXL as LAYERS
from worker.families.family import TorchFamily
from worker.families.sd15 import negative_prompt
from worker.libraries import StableDiffusionXLPipeline

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
    guided_twice=True,
    load_options={"add_watermarker": False},
)
