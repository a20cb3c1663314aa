"""FLUX.1: guidance is a number that the transformer sees, so a negative prompt has no effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.catalogue import Sampling
from shared.families.flux import FLUX as LAYERS
from worker.families.family import TorchFamily
from worker.libraries import FluxPipeline


def _options(_negative_prompt: str | None, sampling: Sampling) -> Mapping[str, Any]:
    return {"max_sequence_length": sampling.max_prompt_tokens}


def _decode(pipeline: Any, latents: Any, width: int, height: int) -> Any:
    # As the end of the pipeline's call does it.
    config = pipeline.vae.config
    unpacked = pipeline._unpack_latents(latents, height, width, pipeline.vae_scale_factor)
    return pipeline.vae.decode(unpacked / config.scaling_factor + config.shift_factor, return_dict=False)[0]


FLUX = TorchFamily(
    family=LAYERS,
    pipeline=FluxPipeline,
    options=_options,
    # The last one stands for the places of the prompt's tokens, which the call makes again.
    encoded=("prompt_embeds", "pooled_prompt_embeds", None),
    decode=_decode,
    guided_twice=False,
    tokenizer="tokenizer_2",
    summary_tokenizer="tokenizer",
)
