"""SD 1.5 and its fine-tunes: a UNet with one CLIP text encoder."""

from __future__ import annotations

from shared.families.clip import clip_layers
from shared.families.family import Family
from shared.families.sgm import sgm_names
from shared.families.unet import unet_layers

SD15 = Family(
    name="sd1.5",
    denoiser="unet",
    layers_of={"unet": unet_layers, "text_encoder": clip_layers},
    original_names=sgm_names,
)
