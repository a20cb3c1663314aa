"""Small pipelines of every family, with random weights, built in code and saved as diffusers folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from shared.catalogue import BaseModelEntry
from tests.worker.random_flux.encoders import clip_encoder, t5_encoder
from tests.worker.random_flux.words import clip_tokenizer, t5_tokenizer
from worker.libraries import (
    AutoencoderKL,
    CLIPTextModelWithProjection,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
    PNDMScheduler,
    StableDiffusionPipeline,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)

WIDTH = 16
"""Of every text encoder."""
TIERS = (4, 8, 16)
SEED = 5


def folder_of(family: str, root: Path) -> Path:
    """The pipeline of this family below ``root``, made now if it is not there; the same weights every time."""
    folder = root / family
    if not folder.exists():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            BUILDERS[family]().save_pretrained(folder)
    return folder


def entry_of(family: str, root: Path, **changes: Any) -> BaseModelEntry:
    """Its entry in a catalogue; adapters may change the text encoders too."""
    twice = family != "flux.1"
    whole = {
        "name": f"small-{family}",
        "family": family,
        "source": str(folder_of(family, root)),
        "dtype": "float32",
        "slot": {"rank_tiers": TIERS, "text_encoders": True},
        "sizes": {"multiple_of": 16, "smallest": 32, "largest": 128, "default_width": 64, "default_height": 48},
        "sampling": {
            "default_steps": 2,
            "largest_steps": 10,
            "default_guidance_scale": 3.5,
            "largest_guidance_scale": 20.0,
            "max_prompt_tokens": 77 if twice else 32,
            "negative_prompt": twice,
        },
    }
    return BaseModelEntry.model_validate(whole | changes)


def _flux() -> Any:
    words, pieces = clip_tokenizer(), t5_tokenizer()
    return FluxPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=_autoencoder(4),
        text_encoder=clip_encoder(len(words), WIDTH),
        tokenizer=words,
        text_encoder_2=t5_encoder(len(pieces), WIDTH, layers=1, heads=2),
        tokenizer_2=pieces,
        transformer=FluxTransformer2DModel(
            patch_size=1,
            in_channels=16,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=WIDTH,
            pooled_projection_dim=WIDTH,
            guidance_embeds=True,
            axes_dims_rope=(4, 6, 6),
        ),
    )


def _sdxl() -> Any:
    words = clip_tokenizer()
    return StableDiffusionXLPipeline(
        scheduler=EulerDiscreteScheduler(),
        vae=_autoencoder(3),
        text_encoder=clip_encoder(len(words), WIDTH),
        text_encoder_2=clip_encoder(len(words), WIDTH, CLIPTextModelWithProjection),
        tokenizer=words,
        tokenizer_2=words,
        unet=_unet(
            cross_attention_dim=2 * WIDTH,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            transformer_layers_per_block=(1, 2),
            use_linear_projection=True,
            addition_embed_type="text_time",
            addition_time_embed_dim=8,
            # Six sizes and places of eight numbers each, and the second text encoder's summary.
            projection_class_embeddings_input_dim=6 * 8 + WIDTH,
        ),
        add_watermarker=False,
    )


def _sd15() -> Any:
    words = clip_tokenizer()
    return StableDiffusionPipeline(
        scheduler=PNDMScheduler(skip_prk_steps=True, steps_offset=1),
        vae=_autoencoder(3),
        text_encoder=clip_encoder(len(words), WIDTH),
        tokenizer=words,
        unet=_unet(
            cross_attention_dim=WIDTH,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        ),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


BUILDERS: dict[str, Callable[[], Any]] = {"flux.1": _flux, "sdxl": _sdxl, "sd1.5": _sd15}


def _unet(**fields: Any) -> UNet2DConditionModel:
    return UNet2DConditionModel(
        sample_size=16,
        block_out_channels=(16, 32),
        layers_per_block=1,
        norm_num_groups=8,
        attention_head_dim=8,
        **fields,
    )


def _autoencoder(depth: int) -> AutoencoderKL:
    return AutoencoderKL(
        block_out_channels=(8,) * depth,
        down_block_types=("DownEncoderBlock2D",) * depth,
        up_block_types=("UpDecoderBlock2D",) * depth,
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=4,
        sample_size=64,
        mid_block_add_attention=False,
        shift_factor=0.0,
    )
