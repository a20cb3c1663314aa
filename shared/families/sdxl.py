"""SDXL and its fine-tunes: a UNet with two CLIP text encoders."""

from __future__ import annotations

from shared.families.clip import clip_layers
from shared.families.family import Family
from shared.families.sgm import sgm_names
from shared.families.unet import unet_layers

SDXL = Family(
    name="sdxl",
    denoiser="unet",
    layers_of={"unet": unet_layers, "text_encoder": clip_layers, "text_encoder_2": clip_layers},
    original_names=sgm_names,
)
