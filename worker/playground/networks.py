"""The networks of tiny-flux, before any training; all of the classes that FLUX.1 has, at a thousandth of its size."""

from __future__ import annotations

from worker.libraries import AutoencoderTiny, FlowMatchEulerDiscreteScheduler, FluxTransformer2DModel

LATENT_CHANNELS = 8
PATCH_PX = 16
"""One latent, px: five levels halve the picture four times."""
TEXT_WIDTH = 96


def new_autoencoder() -> AutoencoderTiny:
    """Pictures (n, 3, 128, 128) from -1 to 1 to latents (n, 8, 8, 8) and back.

    Without normalisation layers, which would take the colour out of a flat picture.
    """
    return AutoencoderTiny(
        encoder_block_out_channels=(32,) * 5,
        decoder_block_out_channels=(32,) * 5,
        num_encoder_blocks=(1, 1, 1, 1, 1),
        num_decoder_blocks=(2, 1, 1, 1, 1),
        latent_channels=LATENT_CHANNELS,
    )


def new_transformer() -> FluxTransformer2DModel:
    """Sixteen image tokens and ten text tokens through two double and five single blocks of width 160."""
    return FluxTransformer2DModel(
        patch_size=1,
        in_channels=4 * LATENT_CHANNELS,
        num_layers=2,
        num_single_layers=5,
        attention_head_dim=32,
        num_attention_heads=5,
        joint_attention_dim=TEXT_WIDTH,
        pooled_projection_dim=TEXT_WIDTH,
        guidance_embeds=False,
        axes_dims_rope=(8, 12, 12),
    )


def new_scheduler() -> FlowMatchEulerDiscreteScheduler:
    """Evenly spaced noise levels, shifted the same at every picture size."""
    return FlowMatchEulerDiscreteScheduler(shift=1.0, use_dynamic_shifting=False)
