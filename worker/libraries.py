"""diffusers, peft and transformers, imported without their chatter.

They log and warn while they are imported (missing torchvision, torchao's compiled parts), which would land in the
user's terminal. Import them from here, never directly.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hushed() -> Iterator[None]:
    """Within it, nothing below an error is logged and no warning is shown."""
    before = logging.root.manager.disable
    # The libraries set their own loggers' levels while they are imported, so only the global switch holds.
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


with hushed():
    import diffusers
    import peft
    import transformers
    from diffusers import (
        AutoencoderKL,
        AutoencoderTiny,
        EulerDiscreteScheduler,
        FlowMatchEulerDiscreteScheduler,
        FluxPipeline,
        FluxTransformer2DModel,
        PNDMScheduler,
        StableDiffusionPipeline,
        StableDiffusionXLPipeline,
        UNet2DConditionModel,
    )
    from peft import LoraConfig, inject_adapter_in_model
    from peft.tuners.lora.layer import LoraLayer
    from transformers import (
        CLIPTextConfig,
        CLIPTextModel,
        CLIPTextModelWithProjection,
        CLIPTokenizer,
        T5Config,
        T5EncoderModel,
        T5TokenizerFast,
    )

    diffusers.utils.logging.set_verbosity_error()
    diffusers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()

__all__ = [
    "AutoencoderKL",
    "AutoencoderTiny",
    "CLIPTextConfig",
    "CLIPTextModel",
    "CLIPTextModelWithProjection",
    "CLIPTokenizer",
    "EulerDiscreteScheduler",
    "FlowMatchEulerDiscreteScheduler",
    "FluxPipeline",
    "FluxTransformer2DModel",
    "LoraConfig",
    "LoraLayer",
    "PNDMScheduler",
    "StableDiffusionPipeline",
    "StableDiffusionXLPipeline",
    "T5Config",
    "T5EncoderModel",
    "T5TokenizerFast",
    "UNet2DConditionModel",
    "diffusers",
    "hushed",
    "inject_adapter_in_model",
    "peft",
    "transformers",
]
