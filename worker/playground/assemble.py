"""The whole pipeline from its trained parts, and its files."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from worker.libraries import AutoencoderTiny, FluxPipeline, FluxTransformer2DModel
from worker.playground.adapter_file import write_adapter
from worker.playground.adapters import ADAPTERS
from worker.playground.manifest import write_manifest
from worker.playground.networks import new_scheduler
from worker.playground.text import Text


def assembled(autoencoder: AutoencoderTiny, transformer: FluxTransformer2DModel) -> FluxPipeline:
    """A FLUX pipeline of these parts and the text encoders, on the CPU."""
    text = Text()
    pipeline = FluxPipeline(
        scheduler=new_scheduler(),
        vae=autoencoder,
        text_encoder=text.clip,
        tokenizer=text.words,
        text_encoder_2=text.t5,
        tokenizer_2=text.pieces,
        transformer=transformer,
    )
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def export(
    folder: Path,
    autoencoder: AutoencoderTiny,
    transformer: FluxTransformer2DModel,
    adapters: dict[str, dict[str, Tensor]],
) -> None:
    """Write everything in half precision below ``folder``, and the manifest with the hash of each file."""
    pipeline = assembled(autoencoder, transformer).to(torch.float16)
    pipeline.save_pretrained(folder, safe_serialization=True)
    (folder / "adapters").mkdir(exist_ok=True)
    for name, tensors in adapters.items():
        write_adapter(folder / "adapters" / f"{name}.safetensors", name, ADAPTERS[name], tensors)
    write_manifest(folder)
