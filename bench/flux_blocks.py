"""A FLUX transformer of the real width with a few of its blocks, and random adapters for it."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from shared.adapter_layers import LayerShape
from worker.compact import CompactAdapter, CompactLayer
from worker.libraries import FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel

ATTENTION = (".attn.",)
ALL_LINEAR = ("",)


def flux_blocks(double: int = 2, single: int = 4) -> FluxTransformer2DModel:
    """Of FLUX.1-dev's width, in bfloat16 on the CPU, weights zero: what a swap takes does not depend on them."""
    with torch.device("meta"):
        model = FluxTransformer2DModel(num_layers=double, num_single_layers=single, guidance_embeds=True)
    model = model.to(torch.bfloat16).to_empty(device="cpu")
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    return model.eval().requires_grad_(False)


def pipeline_of(model: FluxTransformer2DModel) -> FluxPipeline:
    """A pipeline around it that can load adapters, and nothing else."""
    return FluxPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=None,
        text_encoder=None,
        tokenizer=None,
        text_encoder_2=None,
        tokenizer_2=None,
        transformer=model,
    )


def random_adapter(
    layers: Mapping[str, LayerShape], targets: tuple[str, ...], rank: int, seed: int = 0
) -> dict[str, torch.Tensor]:
    """An adapter file's tensors in diffusers' names, for the layers whose name holds one of ``targets``."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in layers.items():
        if any(target in name for target in targets):
            down = torch.randn(rank, shape.inputs, generator=generator) / shape.inputs**0.5
            tensors[f"{name}.lora_A.weight"] = down.bfloat16()
            tensors[f"{name}.lora_B.weight"] = (torch.randn(shape.outputs, rank, generator=generator) / 10).bfloat16()
    return tensors


def compact_of(tensors: Mapping[str, torch.Tensor], sha256: str) -> CompactAdapter:
    """The same, converted."""
    names = sorted({name.partition(".lora_")[0] for name in tensors})
    return CompactAdapter(
        sha256,
        {name: CompactLayer(tensors[f"{name}.lora_A.weight"], tensors[f"{name}.lora_B.weight"]) for name in names},
    )
