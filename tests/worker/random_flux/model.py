"""The weights of the random FLUX: of a fixed seed, scaled so that pictures have colour, contrast and structure.

Untrained weights make grey noise. Three choices turn it into pictures without any training:

- the output head is tied to the transpose of the input embedding, so each step takes noise away;
- sharp attention over rotary positions makes large shapes that depend on prompt and place;
- the decoder's kernels are a random mix of channels times a blur, so neighbours agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from tests.worker.random_flux.encoders import clip_encoder, t5_encoder
from tests.worker.random_flux.words import clip_tokenizer, t5_tokenizer
from worker.libraries import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
)

SEED = 7
DECODER_SEED = 12
LATENT_CHANNELS = 4
TEXT_WIDTH = 32

# Measured once over a few pictures of this very model, then rounded: centres its colours and sets their contrast.
DECODER_GAIN = 0.6
DECODER_BIAS = (0.57, 0.39, -0.6)


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes with one CPU thread, so that the weights do not depend on the number of cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def build_pipeline() -> FluxPipeline:
    """The whole pipeline on the CPU in float32, in eval mode; the same weights at every call."""
    words, pieces = clip_tokenizer(), t5_tokenizer()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(SEED)
        clip = clip_encoder(len(words), TEXT_WIDTH)
        t5 = t5_encoder(len(pieces), TEXT_WIDTH, layers=2, heads=4)
        transformer = _transformer()
        decoder = _autoencoder()
        _shape_transformer(transformer, torch.Generator().manual_seed(SEED))
        _shape_autoencoder(decoder, torch.Generator().manual_seed(DECODER_SEED))
    for model in (clip, t5, transformer, decoder):
        model.eval()
        model.requires_grad_(False)
    pipeline = FluxPipeline(
        scheduler=_scheduler(),
        vae=decoder,
        text_encoder=clip,
        tokenizer=words,
        text_encoder_2=t5,
        tokenizer_2=pieces,
        transformer=transformer,
    )
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def _transformer() -> FluxTransformer2DModel:
    return FluxTransformer2DModel(
        patch_size=1,
        in_channels=4 * LATENT_CHANNELS,
        num_layers=2,
        num_single_layers=4,
        attention_head_dim=16,
        num_attention_heads=4,
        joint_attention_dim=TEXT_WIDTH,
        pooled_projection_dim=TEXT_WIDTH,
        guidance_embeds=True,
        axes_dims_rope=(4, 6, 6),
    )


def _autoencoder() -> AutoencoderKL:
    return AutoencoderKL(
        block_out_channels=(32, 32, 32, 32),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=1,
        latent_channels=LATENT_CHANNELS,
        norm_num_groups=8,
        sample_size=128,
        use_quant_conv=False,
        use_post_quant_conv=False,
        mid_block_add_attention=False,
        scaling_factor=1.0,
        shift_factor=0.0,
    )


def _scheduler() -> FlowMatchEulerDiscreteScheduler:
    return FlowMatchEulerDiscreteScheduler(
        shift=3.0,
        use_dynamic_shifting=True,
        base_shift=0.5,
        max_shift=1.15,
        base_image_seq_len=256,
        max_image_seq_len=4096,
    )


def _normal(generator: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=generator)


def _shape_transformer(model: FluxTransformer2DModel, generator: torch.Generator) -> None:
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear):
            gain = _gain(name) / math.sqrt(layer.in_features)
            layer.weight.copy_(_normal(generator, layer.out_features, layer.in_features) * gain)
            layer.bias.copy_(_normal(generator, layer.out_features) * 0.02)
            if name.endswith(("norm1.linear", "norm1_context.linear", "norm.linear")):
                _open_gates(layer.bias, layer.in_features)
        elif isinstance(layer, nn.RMSNorm):
            layer.weight.fill_(2.5)
    width, channels = int(model.inner_dim), int(model.config.in_channels)
    basis, _ = torch.linalg.qr(_normal(generator, width, channels))
    model.x_embedder.weight.copy_(2.0 * basis)
    noise = _normal(generator, channels, width) / math.sqrt(width)
    model.proj_out.weight.copy_(2.0 * basis.T + 1.5 * noise)


def _open_gates(bias: torch.Tensor, width: int) -> None:
    # Of each block's (shift, scale, gate) every third part gates what the block adds; at zero mean the signs of what
    # an adapter adds would be drawn by lot.
    for gate in bias.split(width)[2::3]:
        gate.add_(1.0)


def _gain(layer: str) -> float:
    if "text_embedder" in layer:
        return 0.3
    if "norm" in layer:
        return 1.2
    return 2.0 if layer.endswith(("to_v", "add_v_proj", "to_out.0")) else 1.0


def _shape_autoencoder(model: AutoencoderKL, generator: torch.Generator) -> None:
    line = torch.tensor([1.0, 2.0, 1.0]) / 4.0
    blur = torch.outer(line, line)
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            mix = _normal(generator, layer.out_channels, layer.in_channels, 1, 1) / math.sqrt(layer.in_channels)
            kernel = mix * 2.0 * blur if layer.kernel_size == (3, 3) else mix
            if layer.kernel_size == (3, 3):
                grain = _normal(generator, layer.out_channels, layer.in_channels, 3, 3)
                kernel = kernel + grain * 0.25 / (3 * math.sqrt(layer.in_channels))
            layer.weight.copy_(kernel)
            if layer.bias is not None:
                layer.bias.copy_(_normal(generator, layer.out_channels) * 0.2)
    head = model.decoder.conv_out
    light = _normal(generator, 1, head.in_channels) * 0.8
    colour = _normal(generator, 3, head.in_channels) * 0.9
    mix = (light + colour - colour.mean(0)) / math.sqrt(head.in_channels)
    head.weight.copy_(mix[:, :, None, None] * 1.5 * blur * DECODER_GAIN)
    head.bias = nn.Parameter(torch.tensor(DECODER_BIAS))
