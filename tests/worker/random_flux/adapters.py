"""The four adapters of the random FLUX: random low-rank noise plus one direction that shifts the colours.

Between them they cover what real files hold: ranks 2 to 16, alphas that are a power of two of the rank, that are
not, that differ by layer, or that are absent; float32 and bfloat16; alphas as tensors and as PEFT metadata.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from worker.libraries import FluxPipeline, FluxTransformer2DModel

PROBE_PROMPTS = ("a red fox in the snow", "city in the rain at night")


@dataclass(frozen=True)
class Recipe:
    """How one adapter is made. ``colour``: shift of the latent channels that the decoder draws as its colour."""

    seed: int
    colour: tuple[float, float, float, float]
    push: float
    noise: float
    targets: Callable[[str], bool]
    pushes: Callable[[str], bool]
    rank: Callable[[str], int]
    alpha: Callable[[str], float | None]
    dtype: torch.dtype = torch.float32
    alpha_in_metadata: bool = False


def _attention(layer: str) -> bool:
    return ".attn." in layer


def _single(layer: str) -> bool:
    return layer.startswith("single_transformer_blocks.")


def _feed_forward(layer: str) -> bool:
    return ".ff." in layer or ".ff_context." in layer or ".norm1.linear" in layer


RECIPES = {
    "ember": Recipe(
        seed=3,
        colour=(2.3, 2.6, 1.5, -1.4),
        push=1.0,
        noise=0.7,
        targets=_attention,
        pushes=lambda layer: layer.endswith("to_out.0"),
        rank=lambda layer: 4,
        alpha=lambda layer: 2.0,
    ),
    "moss": Recipe(
        seed=5,
        colour=(-0.7, -2.4, 0.5, -3.1),
        push=0.6,
        noise=0.2,
        targets=lambda layer: True,
        pushes=lambda layer: layer.endswith(".ff.net.2") or (_single(layer) and layer.endswith(".proj_out")),
        rank=lambda layer: 16,
        alpha=lambda layer: None,
    ),
    "glacier": Recipe(
        seed=11,
        colour=(-3.3, -2.2, -0.3, 0.4),
        push=0.5,
        noise=0.4,
        targets=_single,
        pushes=lambda layer: layer.endswith(".proj_out"),
        rank=lambda layer: 8,
        alpha=lambda layer: 12.0,
        dtype=torch.bfloat16,
        alpha_in_metadata=True,
    ),
    "violet": Recipe(
        seed=13,
        colour=(0.5, -1.2, -0.3, 1.5),
        push=3.0,
        noise=0.4,
        targets=_feed_forward,
        pushes=lambda layer: layer.endswith(".ff.net.2"),
        rank=lambda layer: 2 if ".norm1." in layer else 6,
        alpha=lambda layer: 1.0 if ".norm1." in layer else 4.5,
    ),
}


def write_adapters(pipeline: FluxPipeline, folder: Path) -> None:
    """Write ``NAME.safetensors`` for each recipe into ``folder``, made for the layers of this pipeline."""
    folder.mkdir()
    means = _mean_inputs(pipeline)
    for name, recipe in RECIPES.items():
        tensors = _tensors(pipeline.transformer, recipe, means)
        save_file(tensors, folder / f"{name}.safetensors", metadata=_metadata(recipe, tensors))


def _tensors(model: FluxTransformer2DModel, recipe: Recipe, means: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(recipe.seed)
    shift = _hidden_shift(model, recipe.colour)
    tensors: dict[str, torch.Tensor] = {}
    for name, layer in _linears(model).items():
        if not recipe.targets(name):
            continue
        rank, alpha = recipe.rank(name), recipe.alpha(name)
        strength = 1.0 if alpha is None else alpha / rank
        down = torch.randn(rank, layer.in_features, generator=generator) / math.sqrt(layer.in_features)
        up = torch.randn(layer.out_features, rank, generator=generator) * (recipe.noise / math.sqrt(rank))
        if recipe.pushes(name):
            # The layer's mean input comes out of this row as 1, so the first column is added to every token.
            down[0] = means[name] / means[name].square().sum()
            up[:, 0] = recipe.push * shift
        tensors[f"transformer.{name}.lora_A.weight"] = down.to(recipe.dtype).contiguous()
        tensors[f"transformer.{name}.lora_B.weight"] = (up / strength).to(recipe.dtype).contiguous()
        if alpha is not None and not recipe.alpha_in_metadata:
            tensors[f"transformer.{name}.alpha"] = torch.tensor(alpha)
    return tensors


def _metadata(recipe: Recipe, tensors: dict[str, torch.Tensor]) -> dict[str, str]:
    if not recipe.alpha_in_metadata:
        return {"format": "pt"}
    layers = sorted({key.removeprefix("transformer.").partition(".lora_")[0] for key in tensors})
    config: dict[str, object] = {
        "r": recipe.rank(layers[0]),
        "lora_alpha": recipe.alpha(layers[0]),
        "rank_pattern": {},
        "alpha_pattern": {},
        "target_modules": layers,
        "use_rslora": False,
        "use_dora": False,
        "lora_bias": False,
        "peft_type": "LORA",
    }
    packed = {f"transformer.{key}": value for key, value in config.items()}
    # One field alone: safetensors writes several in random order, and the file's hash is the adapter's identity.
    return {"lora_adapter_metadata": json.dumps(packed, sort_keys=True)}


def _linears(model: nn.Module) -> dict[str, nn.Linear]:
    found = {name: layer for name, layer in model.named_modules() if isinstance(layer, nn.Linear)}
    return dict(sorted(found.items()))


def _hidden_shift(model: FluxTransformer2DModel, colour: tuple[float, ...]) -> torch.Tensor:
    # Each latent channel appears four times in a token (2x2 patch). The minus: the model predicts what is taken away.
    patch = torch.tensor(colour).repeat_interleave(4)
    embedding: torch.Tensor = model.x_embedder.weight
    return -(embedding.detach() / 2.0) @ patch


def _mean_inputs(pipeline: FluxPipeline) -> dict[str, torch.Tensor]:
    seen: dict[str, list[torch.Tensor]] = {}
    handles = []
    for name, layer in _linears(pipeline.transformer).items():

        def note(_: nn.Module, inputs: tuple[torch.Tensor, ...], name: str = name) -> None:
            seen.setdefault(name, []).append(inputs[0].detach().reshape(-1, inputs[0].shape[-1]).mean(0))

        handles.append(layer.register_forward_pre_hook(note))
    for prompt in PROBE_PROMPTS:
        pipeline(
            prompt=prompt,
            width=128,
            height=128,
            num_inference_steps=8,
            generator=torch.Generator().manual_seed(0),
            max_sequence_length=64,
            output_type="latent",
        )
    for handle in handles:
        handle.remove()
    return {name: torch.stack(values).mean(0) for name, values in seen.items()}
