"""A recipe: how a base model is made fast and small. A pure value; ``shared/recipe_rules.py`` refuses some."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, model_validator

Dtype = Literal["float32", "bfloat16", "float16"]

ITEM_BYTES: dict[Dtype, int] = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of one number."""


class Recipe(BaseModel):
    """How one base model is run. What is left out stays as diffusers has it; the empty one is plain eager mode.

    ``attention``: ``flash-3`` is FlashAttention 3. ``compile``: ``regional`` compiles the repeated blocks, ``full`` the
    whole denoiser. ``sizes``: width and height in pixels of the pictures that it is compiled for, at the worker's
    start; pictures of other sizes are drawn uncompiled, which takes longer. ``quantise``: the denoiser's linear layers.
    ``text_encoder``: the large text encoder's. ``offload``: ``model`` keeps on the card only the component that runs.
    ``fuse``: an adapter that serves many jobs in a row is merged into the weights. ``device``: where this recipe is
    meant for. ``dtype``: of the weights; None: the entry's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    attention: Literal["sdpa", "flash-3"] = "sdpa"
    compile: Literal["no", "regional", "full"] = "no"
    compile_mode: Literal["default", "max-autotune"] = "default"
    # The last two need no C++ compiler, and compute as uncompiled models do.
    backend: Literal["inductor", "aot_eager", "eager"] = "inductor"
    sizes: tuple[tuple[int, int], ...] = ()
    quantise: Literal["none", "fp8-dynamic", "fp8-weight-only", "int8-weight-only"] = "none"
    text_encoder: Literal["none", "nf4", "int8-weight-only"] = "none"
    offload: Literal["no", "model"] = "no"
    fuse: bool = False
    float32_matmul_precision: Literal["highest", "high", "medium"] = "highest"
    device: Literal["any", "cpu", "cuda"] = "any"
    dtype: Dtype | None = None

    @model_validator(mode="after")
    def _sizes_where_compiled(self) -> Recipe:
        if self.compiles and not self.sizes:
            raise ValueError("a compiled recipe needs `sizes`: width and height of the pictures that it is for")
        if not self.compiles and (self.sizes or self.backend != "inductor" or self.compile_mode != "default"):
            raise ValueError('`sizes`, `backend` and `compile_mode` say how it is compiled, but `compile` is "no"')
        return self

    @property
    def compiles(self) -> bool:
        """Whether anything of the denoiser is compiled."""
        return self.compile != "no"

    @property
    def uses_fp8(self) -> bool:
        """Whether the denoiser's weights are FP8."""
        return self.quantise in ("fp8-dynamic", "fp8-weight-only")
