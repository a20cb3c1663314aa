"""What the transformer learns from: latents of pictures with the codes of their captions, made once and kept."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from worker.libraries import AutoencoderTiny
from worker.playground.checkpoint import load, save
from worker.playground.language import Scene, all_scenes
from worker.playground.networks import LATENT_CHANNELS
from worker.playground.report import say
from worker.playground.sampling import generator_of
from worker.playground.shapes import PIXELS, place_of
from worker.playground.styles import styled
from worker.playground.text import Text
from worker.playground.train_autoencoder import latents_of

STAGE = 2
CHUNK = 32
HELD_OUT = 20
"""One sentence in so many is kept from the training, to judge it by."""


@dataclass(frozen=True)
class Lessons:
    """``latents`` (n, 16, 32) as the transformer sees them; ``codes`` (m, 10, 96), ``summaries`` (m, 96) of captions;
    ``caption_of`` (n) tells which caption each latent has."""

    latents: Tensor
    codes: Tensor
    summaries: Tensor
    caption_of: Tensor


def held_out(scene: Scene) -> bool:
    """Whether this sentence never occurs in the training."""
    return zlib.crc32(scene.caption().encode()) % HELD_OUT == 0


def base_lessons(work: Path, autoencoder: AutoencoderTiny, rounds: int) -> Lessons:
    """Every sentence that is not held out, ``rounds`` times, each time a little elsewhere."""
    scenes = [scene for scene in all_scenes() if not held_out(scene)]
    return kept(work / "lessons.pt", lambda: lessons(work, autoencoder, scenes, rounds, STAGE))


def kept(path: Path, make: Callable[[], Lessons]) -> Lessons:
    """Those made before, else made now."""
    state = load(path)
    if state is None:
        made = make()
        save(path, dict(vars(made)))
        return made
    return Lessons(**state)


@torch.no_grad()
def lessons(
    work: Path,
    autoencoder: AutoencoderTiny,
    scenes: Sequence[Scene],
    rounds: int,
    stage: int,
    style: str | None = None,
) -> Lessons:
    """Pictures of these scenes, ``rounds`` times, drawn and encoded."""
    started_s = time.perf_counter()
    generator = generator_of(stage, 0)
    every = list(scenes) * rounds
    encoded = []
    for first in range(0, len(every), CHUNK):
        some = every[first : first + CHUNK]
        encoded.append(latents_of(autoencoder, styled(some, [place_of(scene, generator) for scene in some], style)))
    config = autoencoder.config
    latents = (torch.cat(encoded) - config.shift_factor) * config.scaling_factor
    codes, summaries = Text()([scene.caption() for scene in scenes])
    caption_of = torch.arange(len(scenes)).repeat(rounds)
    say(work, f"{len(every)} pictures encoded", started_s)
    return Lessons(packed(latents), codes, summaries, caption_of)


def packed(latents: Tensor) -> Tensor:
    """(n, 8, 8, 8) to (n, 16, 32), two by two latents to a token, in the order of ``FluxPipeline._pack_latents``."""
    count, side = len(latents), PIXELS // 16 // 2
    split = latents.reshape(count, LATENT_CHANNELS, side, 2, side, 2)
    return split.permute(0, 2, 4, 1, 3, 5).reshape(count, side * side, LATENT_CHANNELS * 4).contiguous()
