"""Kinds of adapters that are recognised by their keys, to be refused by name. No torch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shared.adapters.header import shown
from shared.errors import AdapterUnsupported

EXPECTED = (
    "Served are plain LoRA weights (an A and a B for each layer) in the names of diffusers, PEFT, kohya, ComfyUI, "
    "OneTrainer and XLabs"
)

_SHOWN = 3


@dataclass(frozen=True)
class Kind:
    """Adapters of which at least one key matches ``pattern``.

    ``reason``: stable, for programs. ``sentence``: for people. ``example``: a key of that kind, for the documentation.
    """

    reason: str
    pattern: re.Pattern[str]
    sentence: str
    example: str


def _kind(reason: str, pattern: str, sentence: str, example: str) -> Kind:
    return Kind(reason, re.compile(pattern), sentence, example)


# In order: what the weights mean comes before what they are for, so a DoRA with text encoders is called a DoRA.
KINDS = (
    _kind(
        "dora",
        r"\bdora_scale$|\blora_magnitude_vector\b",
        "it is a DoRA adapter, which is not served",
        "lora_unet_double_blocks_0_img_attn_proj.dora_scale",
    ),
    _kind(
        "loha",
        r"\bhada_",
        "it is a LoHa adapter (hada_ keys), which is not served",
        "lora_unet_double_blocks_0_img_attn_proj.hada_w1_a",
    ),
    _kind(
        "lokr",
        r"\blokr_",
        "it is a LoKr adapter (lokr_ keys), which is not served",
        "lora_unet_double_blocks_0_img_attn_proj.lokr_w1",
    ),
    _kind("oft", r"\bb?oft_", "it is an OFT adapter, which is not served", "lora_unet_mid_block_0_to_q.oft_blocks"),
    _kind(
        "tucker",
        r"\blora_mid\b",
        "it is a Tucker-decomposed LoCon adapter (lora_mid keys), which is not served",
        "lora_unet_input_blocks_1_0_in_layers_2.lora_mid.weight",
    ),
    _kind(
        "glora",
        r"\.[ab][12]\.weight$",
        "it is a GLoRA adapter, which is not served",
        "lora_unet_mid_block_attentions_0_proj_in.a1.weight",
    ),
    _kind(
        "ia3",
        r"\bia3_l\b|\.on_input$",
        "it is an (IA)³ adapter, which is not served",
        "lora_unet_mid_block_attentions_0_proj_in.on_input",
    ),
    _kind(
        "control",
        r"\b(query|key)_norm\.scale$|\.norm_(added_)?[qk]\.weight$|^lora_controlnet$|^control(_model|net)\b",
        "it is a control adapter (it replaces norm weights or takes another image as its input), which is not served",
        "double_blocks.0.img_attn.norm.query_norm.scale",
    ),
    _kind(
        "scaled_fp8",
        r"\bscaled_fp8$|\b(weight_scale|scale_weight|scale_input|input_scale)$",
        "its weights are quantised with scales of their own, so they cannot be cast exactly",
        "transformer.proj_out.lora_A.weight_scale",
    ),
    _kind(
        "norm",
        r"\.([wb]_norm)$|\.(layer_norm\d|final_layer_norm|norm\d?|norm_out)\.(weight|diff|diff_b)$",
        "it changes norm weights, which is not served",
        "lora_unet_down_blocks_0_resnets_0_norm1.w_norm",
    ),
    _kind("bias", r"\.bias$|\.diff_b$", "it changes biases, which is not served", "unet.conv_in.lora_B.bias"),
    _kind(
        "full_diff",
        r"\.(diff|set_weight)$",
        "it holds full weight differences, which are not served",
        "diffusion_model.final_layer.linear.diff",
    ),
    _kind(
        "embedding",
        r"^(bundle_emb\.|emb_params$|string_to_param\b)",
        "it holds a textual inversion (words of its own), which is not served",
        "bundle_emb.fox.clip_l",
    ),
    _kind(
        "checkpoint",
        r"^(model\.diffusion_model|first_stage_model|cond_stage_model|conditioner)\.",
        "it is a whole model, not an adapter",
        "model.diffusion_model.out.2.weight",
    ),
    _kind(
        "t5",
        r"^lora_te\d_encoder_block_|^lora_te3_|^text_encoders\.t5xxl\.|^text_encoder_[23]\.encoder\.block\.",
        "it changes the T5 text encoder, which is not served",
        "lora_te2_encoder_block_0_layer_0_SelfAttention_q.lora_down.weight",
    ),
)


def refuse_foreign(keys: Iterable[str]) -> None:
    """Raise ``AdapterUnsupported`` if there are no keys, or if any is of a kind that is not served."""
    names = list(keys)
    if not names:
        raise AdapterUnsupported(f"it holds no tensors. {EXPECTED}.", reason="no_tensors")
    for kind in KINDS:
        matching = [name for name in names if kind.pattern.search(name)]
        if matching:
            raise refusal(kind.reason, kind.sentence, matching)


def refusal(reason: str, sentence: str, keys: Sequence[str]) -> AdapterUnsupported:
    """The refusal that names the first of these keys and what was expected."""
    return AdapterUnsupported(f"{sentence}; {named(keys)}. {EXPECTED}.", reason=reason)


def named(keys: Sequence[str]) -> str:
    """The first keys in words, shortened."""
    return f"first of {len(keys)} such keys: {', '.join(map(shown, keys[:_SHOWN]))}"
