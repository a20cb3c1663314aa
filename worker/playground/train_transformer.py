"""Second stage: the transformer, on latents of plain pictures and their captions."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from torch import nn

from worker.libraries import AutoencoderTiny, FluxTransformer2DModel
from worker.playground.checkpoint import due, load, save
from worker.playground.flow import flow_loss
from worker.playground.lessons import base_lessons
from worker.playground.muon import Optimizer, falling
from worker.playground.networks import new_transformer
from worker.playground.report import say
from worker.playground.sampling import generator_of

STEPS = 2400
BATCH = 128
ROUNDS = 3
"""Pictures of each sentence."""
AVERAGED_OVER = 200
"""Steps that the weights are averaged over, at the end of the training."""
STAGE = 3


def train_transformer(work: Path, autoencoder: AutoencoderTiny, steps: int = STEPS) -> FluxTransformer2DModel:
    """The trained transformer, a moving average of its weights; goes on from its checkpoint."""
    lessons = base_lessons(work, autoencoder, ROUNDS)
    model, average = transformer_of_seed(), transformer_of_seed()
    optimizer = Optimizer(model, _inner, muon_rate=0.01, adam_rate=2e-3)
    path = work / "transformer.pt"
    state = load(path)
    done = 0
    if state is not None:
        model.load_state_dict(state["model"])
        average.load_state_dict(state["average"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["step"]
    started_s, seen = time.perf_counter(), []
    for step in range(done, steps):
        loss = flow_loss(model, lessons, BATCH, generator_of(STAGE, step))
        optimizer.step(loss, falling(step, steps))
        _follow(average, model, step)
        seen.append(float(loss.detach()))
        if due(step + 1, steps):
            state = {"model": model.state_dict(), "average": average.state_dict(), "step": step + 1}
            save(path, {**state, "optimizer": optimizer.state_dict()})
            say(work, f"transformer step {step + 1}/{steps} loss {sum(seen) / len(seen):.4f}", started_s)
            seen = []
    return average.requires_grad_(False).eval()


def transformer_of_seed() -> FluxTransformer2DModel:
    """Fresh weights, the same at every call."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(STAGE)
        return new_transformer()


def _inner(name: str, part: nn.Parameter) -> bool:
    return "blocks." in name and part.dim() == 2


@torch.no_grad()
def _follow(average: nn.Module, model: nn.Module, step: int) -> None:
    # A short memory at first, so that the random start is soon forgotten.
    weight = 1 / min(step + 1, AVERAGED_OVER)
    for kept, new in zip(average.parameters(), model.parameters(), strict=True):
        kept.lerp_(new, weight)
