"""First stage: the autoencoder, on every picture that the transformer or an adapter will have to draw."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from worker.libraries import AutoencoderTiny
from worker.playground.checkpoint import due, load, save
from worker.playground.muon import Optimizer, falling
from worker.playground.networks import LATENT_CHANNELS, new_autoencoder
from worker.playground.report import say
from worker.playground.sampling import generator_of, varied_pictures
from worker.playground.shapes import PIXELS
from worker.playground.styles import PERIOD_PX

STEPS = 4200
CROPPED = 3000
"""Steps on crops, which teach the same for a quarter of the price; then whole pictures."""
CROP_PX = 64
CROP_BATCH = 16
BATCH = 8
LATENT_NOISE = 0.05
"""Added to the latents while training, so that the decoder forgives what the transformer gets slightly wrong."""
MEASURED = 256
"""Pictures that tell the mean and variance of the latents."""
STAGE = 1


def train_autoencoder(work: Path, steps: int = STEPS) -> AutoencoderTiny:
    """The trained autoencoder, its latents of mean 0 and variance 1 by its config; goes on from its checkpoint."""
    model = new_autoencoder_of_seed()
    optimizer = Optimizer(model, _inner, muon_rate=0.015, adam_rate=2e-3)
    path = work / "autoencoder.pt"
    state = load(path)
    done = 0
    if state is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["step"]
    started_s, seen = time.perf_counter(), []
    for step in range(done, steps):
        loss, off = _loss(model, step)
        optimizer.step(loss, falling(step, steps))
        seen.append(off)
        if due(step + 1, steps):
            save(path, {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1})
            say(work, f"autoencoder step {step + 1}/{steps} l1 {sum(seen) / len(seen):.4f}", started_s)
            seen = []
    return _measured(model)


def new_autoencoder_of_seed() -> AutoencoderTiny:
    """Fresh weights, the same at every call."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(STAGE)
        # Half again as fast on a CPU as the default order.
        return new_autoencoder().to(memory_format=torch.channels_last)


def _inner(name: str, part: nn.Parameter) -> bool:
    return part.dim() == 4 and min(part.shape[:2]) > LATENT_CHANNELS


def latents_of(model: AutoencoderTiny, pictures: Tensor) -> Tensor:
    """Latents (n, 8, h / 16, w / 16) of pictures (n, 3, h, w) from 0 to 1, not yet scaled."""
    latents: Tensor = model.encoder(pictures.contiguous(memory_format=torch.channels_last) * 2 - 1)
    return latents


def _loss(model: AutoencoderTiny, step: int) -> tuple[Tensor, float]:
    generator = generator_of(STAGE, step)
    pictures = _cropped(step, generator)
    latents = latents_of(model, pictures)
    noise = torch.randn(latents.shape, generator=generator)
    off = (model.decoder(latents + LATENT_NOISE * noise) - (pictures * 2 - 1)).abs()
    # The penalty keeps the latents near variance 1, so that the noise above keeps its meaning.
    penalty = (latents.square().mean((0, 2, 3)) - 1).square().mean() + latents.mean((0, 2, 3)).square().mean()
    return (off * (1 + 3 * _edges(pictures))).mean() + 0.02 * penalty, float(off.detach().mean()) / 2


def _cropped(step: int, generator: torch.Generator) -> Tensor:
    if step >= CROPPED:
        return varied_pictures(BATCH, generator)
    # In step with the tiles and strokes, whose place within a token never changes.
    steps = (PIXELS - CROP_PX) // PERIOD_PX + 1
    top, left = (PERIOD_PX * torch.randint(steps, (2,), generator=generator)).tolist()
    return varied_pictures(CROP_BATCH, generator)[:, :, top : top + CROP_PX, left : left + CROP_PX]


def _edges(pictures: Tensor) -> Tensor:
    """1 near an edge and 0 elsewhere, (n, 1, h, w)."""
    most = functional.max_pool2d(pictures, 5, 1, 2)
    least = -functional.max_pool2d(-pictures, 5, 1, 2)
    return (most - least).amax(1, keepdim=True).clamp(0, 1)


@torch.no_grad()
def _measured(model: AutoencoderTiny) -> AutoencoderTiny:
    # What the transformer learns from is what the released files, in half precision, will decode.
    for part in model.parameters():
        part.copy_(part.half())
    latents = latents_of(model, varied_pictures(MEASURED, generator_of(STAGE, STEPS)))
    model.register_to_config(scaling_factor=1 / float(latents.std()), shift_factor=float(latents.mean()))
    return model.requires_grad_(False).eval()
