"""Third stage: the adapters, each a LoRA on the finished transformer, trained with PEFT."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from worker.libraries import AutoencoderTiny, FluxTransformer2DModel, LoraConfig, inject_adapter_in_model
from worker.playground.adapters import ADAPTERS, Adapter
from worker.playground.checkpoint import due, load, save
from worker.playground.flow import flow_loss
from worker.playground.language import NEW_COLOUR, NEW_SHAPE, Scene, all_scenes
from worker.playground.lessons import Lessons, held_out, kept, lessons
from worker.playground.muon import falling
from worker.playground.report import say
from worker.playground.sampling import generator_of

BATCH = 64
RATE = 3e-3
STAGE = 4
NAME = "lesson"


def train_adapter(
    work: Path, name: str, autoencoder: AutoencoderTiny, transformer: FluxTransformer2DModel, steps: int | None = None
) -> dict[str, Tensor]:
    """Its tensors, ``<layer>.lora_A.weight`` and ``.lora_B.weight``; goes on from its checkpoint."""
    adapter = ADAPTERS[name]
    steps = steps or adapter.steps
    stage = STAGE + list(ADAPTERS).index(name)
    taught = kept(work / f"lessons-{name}.pt", lambda: _lessons(work, autoencoder, adapter, stage))
    model = _injected(transformer, adapter, stage)
    trained = [part for part in model.parameters() if part.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE, betas=(0.9, 0.99), weight_decay=0.0)
    path = work / f"adapter-{name}.pt"
    state = load(path)
    done = 0
    if state is not None:
        model.load_state_dict(state["model"], strict=False)
        optimizer.load_state_dict(state["optimizer"])
        done = state["step"]
    started_s, seen = time.perf_counter(), []
    for step in range(done, steps):
        loss = flow_loss(model, taught, BATCH, generator_of(stage, step + 1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        for group in optimizer.param_groups:
            group["lr"] = RATE * falling(step, steps)
        optimizer.step()
        seen.append(float(loss.detach()))
        if due(step + 1, steps):
            save(path, {"model": _lora(model), "optimizer": optimizer.state_dict(), "step": step + 1})
            say(work, f"adapter {name} step {step + 1}/{steps} loss {sum(seen) / len(seen):.4f}", started_s)
            seen = []
    return {key.replace(f".{NAME}.", "."): part for key, part in _lora(model).items()}


def layers_of(model: nn.Module, adapter: Adapter) -> list[str]:
    """The layers within the blocks that this adapter changes."""
    endings = tuple("." + target for target in adapter.targets)
    return [name for name, _ in model.named_modules() if "blocks." in name and name.endswith(endings)]


def _injected(transformer: FluxTransformer2DModel, adapter: Adapter, stage: int) -> FluxTransformer2DModel:
    model = copy.deepcopy(transformer).requires_grad_(False)
    layers = layers_of(model, adapter)
    config = LoraConfig(
        r=adapter.rank,
        lora_alpha=adapter.alpha,
        target_modules=layers,
        rank_pattern={layer: rank for layer in layers for end, rank in adapter.ranks.items() if layer.endswith(end)},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stage)
        inject_adapter_in_model(config, model, adapter_name=NAME)
    return model


def _lora(model: nn.Module) -> dict[str, Tensor]:
    return {key: part.detach().clone() for key, part in model.state_dict().items() if ".lora_" in key}


def _lessons(work: Path, autoencoder: AutoencoderTiny, adapter: Adapter, stage: int) -> Lessons:
    return lessons(work, autoencoder, _scenes(adapter, stage), 1, stage, adapter.style)


def _scenes(adapter: Adapter, stage: int) -> list[Scene]:
    plain = [scene for scene in all_scenes() if not held_out(scene)]
    if adapter.style:
        return _some(plain, adapter.pictures, stage)
    # Half with the new word, half without: what the word does not ask for must stay as it was.
    words = all_scenes(shapes=(NEW_SHAPE,)) if adapter.trigger == NEW_SHAPE else all_scenes(colours=(NEW_COLOUR,))
    new = [scene for scene in words if not held_out(scene)]
    return _some(new, adapter.pictures // 2, stage) + _some(plain, adapter.pictures // 2, stage)


def _some(scenes: Sequence[Scene], count: int, stage: int) -> list[Scene]:
    order = torch.randperm(len(scenes), generator=generator_of(stage, 0)).tolist()
    return [scenes[place] for place in (order * (count // len(scenes) + 1))[:count]]
