"""The kinds and dialects of adapters that are recognised by their keys, to be refused by name. No torch.

What is served is the diffusers dialect alone: ``transformer.<layer>.lora_A.weight`` and its relatives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from shared.errors import AdapterUnsupported

PREFIX = "transformer."
EXPECTED = "Expected the keys that diffusers writes: transformer.<layer>.lora_A.weight and .lora_B.weight"

_SHOWN = 3
_SHOWN_CHARACTERS = 100


@dataclass(frozen=True)
class Kind:
    """Adapters of which at least one key matches ``pattern``."""

    pattern: re.Pattern[str]
    sentence: str


def _kind(pattern: str, sentence: str) -> Kind:
    return Kind(re.compile(pattern), sentence)


# In order: what the weights mean comes before how they are named, so a DoRA in kohya names is called a DoRA.
KINDS = (
    _kind(r"dora_scale|lora_magnitude_vector", "it is a DoRA adapter, which is not served"),
    _kind(r"\bhada_|_hada_", "it is a LoHa adapter (hada_ keys), which is not served"),
    _kind(r"\blokr_|_lokr_", "it is a LoKr adapter (lokr_ keys), which is not served"),
    _kind(r"\boft_|\bboft_|oft_blocks", "it is an OFT adapter, which is not served"),
    _kind(r"\blora_mid\b", "it is a Tucker-decomposed LoCon adapter (lora_mid keys), which is not served"),
    _kind(
        r"(query|key)_norm\.scale$|\.norm_(added_)?[qk]\.weight$|^lora_controlnet$",
        "it is a control adapter (it replaces norm weights), which is not served",
    ),
    _kind(r"\.(diff|diff_b|w_norm|b_norm)$", "it holds full weight or norm differences, which are not served"),
    _kind(r"\.bias$", "it changes biases, which is not served"),
    _kind(r"^text_encoder(_\d)?\.", "it changes the text encoders, which is not served yet"),
    _kind(r"^lora_te\d?_", "it holds text-encoder keys in kohya or OneTrainer names, which are not served yet"),
    _kind(r"^lora_unet_", "it is in the kohya (sd-scripts) dialect, which is not served yet"),
    _kind(r"^lora_transformer_", "it is in the OneTrainer dialect, which is not served yet"),
    _kind(r"^diffusion_model\.", "it is in the ai-toolkit / ComfyUI dialect, which is not served yet"),
    _kind(r"^(double|single)_blocks\..*processor", "it is in the XLabs dialect, which is not served yet"),
    _kind(r"^(double|single)_blocks\.", "it has the layer names of the original FLUX code, which are not served yet"),
    _kind(
        r"^base_model\.model\.",
        "it is in the dialect of PEFT's save_pretrained, whose alpha lies in another file (adapter_config.json); "
        "save it with the pipeline's save_lora_weights",
    ),
    _kind(r"^unet\.", "it is for a UNet, another family of base models"),
    _kind(
        r"^(single_)?transformer_blocks\.|^(x_embedder|context_embedder|time_text_embed|norm_out|proj_out)\.",
        "its layer names lack the prefix 'transformer.'; save it with the pipeline's save_lora_weights",
    ),
)


def refuse_foreign(keys: Iterable[str]) -> None:
    """Raise ``AdapterUnsupported`` unless every key could be one of the diffusers dialect."""
    names = list(keys)
    if not names:
        raise AdapterUnsupported(f"it holds no tensors. {EXPECTED}.")
    for kind in KINDS:
        matching = [name for name in names if kind.pattern.search(name)]
        if matching:
            raise refusal(kind.sentence, matching)
    unknown = [name for name in names if not name.startswith(PREFIX)]
    if unknown:
        raise refusal("it is in no dialect that is known here", unknown)


def refusal(sentence: str, keys: list[str]) -> AdapterUnsupported:
    """The refusal that names the first of these keys and what was expected."""
    return AdapterUnsupported(f"{sentence}; {named(keys)}. {EXPECTED}.")


def named(keys: list[str]) -> str:
    """The first keys in words, shortened."""
    shown = ", ".join(key[:_SHOWN_CHARACTERS].encode("unicode_escape").decode("ascii") for key in keys[:_SHOWN])
    return f"first of {len(keys)} such keys: {shown}"
