"""What the worker knows about a family beside its layers (``shared.families``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.catalogue import Sampling
from shared.families.family import Family


@dataclass(frozen=True)
class TorchFamily:
    """How a family is loaded and drawn with.

    ``pipeline``: its class of diffusers, loaded with ``load_options`` beside the usual. ``options``: from the negative
    prompt and the sampling limits to what ``encode_prompt`` and the pipeline's call both take. ``encoded``: the
    names under which the call takes what ``encode_prompt`` returns, in that order; None: it takes it not. ``decode``:
    from the call's latents of one image, its width and height in pixels, to the autoencoder's image.
    ``guided_twice``: whether guidance above 1 means two passes, with and without the prompt. ``tokenizer``: of the
    whole prompt; ``summary_tokenizer``: of one that sees a shorter beginning of it.
    """

    family: Family
    pipeline: Any
    options: Callable[[str | None, Sampling], Mapping[str, Any]]
    encoded: tuple[str | None, ...]
    decode: Callable[[Any, Any, int, int], Any]
    guided_twice: bool
    tokenizer: str = "tokenizer"
    summary_tokenizer: str | None = None
    load_options: Mapping[str, Any] = field(default_factory=dict)
