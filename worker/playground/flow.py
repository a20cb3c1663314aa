"""One step of flow matching: noise a latent, let the transformer say where it came from, measure how wrong it was."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from worker.libraries import FluxTransformer2DModel
from worker.playground.language import PROMPT_TOKENS
from worker.playground.lessons import Lessons

SIDE = 4
"""Image tokens along one side of a picture."""


def image_ids() -> Tensor:
    """(16, 3): nothing, row and column of each token, as ``FluxPipeline._prepare_latent_image_ids`` gives them."""
    ids = torch.zeros(SIDE, SIDE, 3)
    ids[..., 1] = torch.arange(SIDE)[:, None]
    ids[..., 2] = torch.arange(SIDE)[None, :]
    return ids.reshape(-1, 3)


def flow_loss(
    transformer: Callable[..., tuple[Tensor]] | FluxTransformer2DModel,
    lessons: Lessons,
    count: int,
    generator: torch.Generator,
) -> Tensor:
    """Mean squared error of the velocity over ``count`` random lessons (rectified flow, Esser et al. 2024)."""
    rows = torch.randint(len(lessons.latents), (count,), generator=generator)
    clean, captions = lessons.latents[rows], lessons.caption_of[rows]
    noise = torch.randn(clean.shape, generator=generator)
    # Logit-normal, leaning to the noisy side, where it is decided what is drawn.
    level = torch.sigmoid(torch.randn(count, generator=generator) + 0.3)
    mixed = torch.lerp(clean, noise, level[:, None, None])
    told = transformer(
        hidden_states=mixed,
        encoder_hidden_states=lessons.codes[captions],
        pooled_projections=lessons.summaries[captions],
        timestep=level,
        img_ids=image_ids(),
        txt_ids=torch.zeros(PROMPT_TOKENS, 3),
        return_dict=False,
    )[0]
    return functional.mse_loss(told.float(), noise - clean)
