"""FLUX.1: a transformer, and the CLIP text encoder. Its T5 text encoder is left as it is."""

from __future__ import annotations

from shared.adapter_layers import LayerShape
from shared.families.clip import clip_layers
from shared.families.family import Config, Family, Layers, OriginalNames, Piece, number

_TIMESTEP_CHANNELS = 256
_FEED_FORWARD = 4

_EMBEDDERS = {
    "img_in": "x_embedder",
    "txt_in": "context_embedder",
    "time_in.in_layer": "time_text_embed.timestep_embedder.linear_1",
    "time_in.out_layer": "time_text_embed.timestep_embedder.linear_2",
    "vector_in.in_layer": "time_text_embed.text_embedder.linear_1",
    "vector_in.out_layer": "time_text_embed.text_embedder.linear_2",
    "guidance_in.in_layer": "time_text_embed.guidance_embedder.linear_1",
    "guidance_in.out_layer": "time_text_embed.guidance_embedder.linear_2",
    "final_layer.linear": "proj_out",
}
_DOUBLE = {
    "img_attn.qkv": ("attn.to_q", "attn.to_k", "attn.to_v"),
    "img_attn.proj": ("attn.to_out.0",),
    "img_mlp.0": ("ff.net.0.proj",),
    "img_mlp.2": ("ff.net.2",),
    "img_mod.lin": ("norm1.linear",),
    "txt_attn.qkv": ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"),
    "txt_attn.proj": ("attn.to_add_out",),
    "txt_mlp.0": ("ff_context.net.0.proj",),
    "txt_mlp.2": ("ff_context.net.2",),
    "txt_mod.lin": ("norm1_context.linear",),
}
_SINGLE = {
    "linear1": ("attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"),
    "linear2": ("proj_out",),
    "modulation.lin": ("norm.linear",),
}


def transformer_layers(config: Config) -> Layers:
    """Every linear layer of diffusers' ``FluxTransformer2DModel``."""
    width = number(config, "num_attention_heads") * number(config, "attention_head_dim")
    wide = _FEED_FORWARD * width
    channels, patch = number(config, "in_channels"), number(config, "patch_size")
    drawn = patch * patch * (config.get("out_channels") or channels)
    found = {
        "x_embedder": LayerShape(channels, width),
        "context_embedder": LayerShape(number(config, "joint_attention_dim"), width),
        "norm_out.linear": LayerShape(width, 2 * width),
        "proj_out": LayerShape(width, drawn),
    }
    pooled = number(config, "pooled_projection_dim")
    embedded = {"timestep_embedder": _TIMESTEP_CHANNELS, "text_embedder": pooled}
    if config.get("guidance_embeds"):
        embedded["guidance_embedder"] = _TIMESTEP_CHANNELS
    for name, inputs in embedded.items():
        found[f"time_text_embed.{name}.linear_1"] = LayerShape(inputs, width)
        found[f"time_text_embed.{name}.linear_2"] = LayerShape(width, width)
    for block in range(number(config, "num_layers")):
        found |= _in_block(f"transformer_blocks.{block}", _double_block(width, wide))
    for block in range(number(config, "num_single_layers")):
        found |= _in_block(f"single_transformer_blocks.{block}", _single_block(width, wide))
    return found


def _double_block(width: int, wide: int) -> Layers:
    attention = [layer for layers in _DOUBLE.values() for layer in layers if layer.startswith("attn.")]
    found = dict.fromkeys(attention, LayerShape(width, width))
    for side in ("", "_context"):
        found[f"norm1{side}.linear"] = LayerShape(width, 6 * width)
        found[f"ff{side}.net.0.proj"] = LayerShape(width, wide)
        found[f"ff{side}.net.2"] = LayerShape(wide, width)
    return found


def _single_block(width: int, wide: int) -> Layers:
    return {
        **dict.fromkeys(("attn.to_q", "attn.to_k", "attn.to_v"), LayerShape(width, width)),
        "norm.linear": LayerShape(width, 3 * width),
        "proj_mlp": LayerShape(width, wide),
        "proj_out": LayerShape(width + wide, width),
    }


def _in_block(block: str, layers: Layers) -> Layers:
    return {f"{block}.{name}": shape for name, shape in layers.items()}


def original_names(layers: Layers) -> OriginalNames:
    """Names in the code that FLUX.1 was published with; ComfyUI, ai-toolkit and kohya's scripts build on them."""
    found: OriginalNames = {name: (Piece(layer),) for name, layer in _EMBEDDERS.items() if layer in layers}
    if (last := layers.get("norm_out.linear")) is not None:
        half = last.outputs // 2
        # There the shift comes before the scale, in diffusers after it.
        swapped = ((half, last.outputs), (0, half))
        found["final_layer.adaLN_modulation.1"] = (Piece("norm_out.linear", swapped),)
    for theirs, ours, parts in (
        ("double_blocks", "transformer_blocks", _DOUBLE),
        ("single_blocks", "single_transformer_blocks", _SINGLE),
    ):
        for block in _blocks(layers, ours):
            for name, fused in parts.items():
                found[f"{theirs}.{block}.{name}"] = _fused([f"{ours}.{block}.{layer}" for layer in fused], layers)
    return found


def processor_names(layers: Layers) -> OriginalNames:
    """Names of XLabs' attention processors, which stand beside the layers of the original code."""
    original = original_names(layers)
    found: OriginalNames = {}
    for block in _blocks(layers, "transformer_blocks"):
        there = f"double_blocks.{block}"
        for number_there, side in (("1", "img"), ("2", "txt")):
            found[f"{there}.processor.qkv_lora{number_there}"] = original[f"{there}.{side}_attn.qkv"]
            found[f"{there}.processor.proj_lora{number_there}"] = original[f"{there}.{side}_attn.proj"]
    for block in _blocks(layers, "single_transformer_blocks"):
        there = f"single_blocks.{block}"
        # Only what attention reads; the fused layer's last rows are the feed-forward's.
        found[f"{there}.processor.qkv_lora"] = original[f"{there}.linear1"][:3]
        found[f"{there}.processor.proj_lora"] = original[f"{there}.linear2"]
    return found


def _blocks(layers: Layers, kind: str) -> list[str]:
    return sorted({name.split(".")[1] for name in layers if name.startswith(f"{kind}.")}, key=int)


def _fused(names: list[str], layers: Layers) -> tuple[Piece, ...]:
    if len(names) == 1:
        return (Piece(names[0]),)
    pieces, reached = [], 0
    for name in names:
        end = reached + layers[name].outputs
        pieces.append(Piece(name, ((reached, end),)))
        reached = end
    return tuple(pieces)


FLUX = Family(
    name="flux.1",
    denoiser="transformer",
    layers_of={"transformer": transformer_layers, "text_encoder": clip_layers},
    original_names=original_names,
    processor_names=processor_names,
)
