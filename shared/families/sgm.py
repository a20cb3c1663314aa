"""What the original Stable Diffusion code calls the layers of its UNet; kohya's SDXL files and ComfyUI build on it."""

from __future__ import annotations

import re

from shared.families.family import Layers, OriginalNames, Piece

_AROUND = {
    "conv_in": "input_blocks.0.0",
    "conv_out": "out.2",
    "time_embedding.linear_1": "time_embed.0",
    "time_embedding.linear_2": "time_embed.2",
    "add_embedding.linear_1": "label_emb.0.0",
    "add_embedding.linear_2": "label_emb.0.2",
}
_RESIDUAL = {
    "conv1": "in_layers.2",
    "time_emb_proj": "emb_layers.1",
    "conv2": "out_layers.3",
    "conv_shortcut": "skip_connection",
}
_MIDDLE = {"resnets.0": "0", "attentions.0": "1", "resnets.1": "2"}
_LAYER = re.compile(
    r"(?:(?P<side>down|up)_blocks\.(?P<block>\d+)|mid_block)\."
    r"(?P<kind>resnets|attentions|downsamplers|upsamplers)\.(?P<place>\d+)\.(?P<rest>.+)"
)


def sgm_names(layers: Layers) -> OriginalNames:
    """The names there of these layers of a UNet."""
    # How many residual layers stand in a block on the way down; on the way up it is one more.
    per_block = sum(re.fullmatch(r"down_blocks\.0\.resnets\.\d+\.conv1", name) is not None for name in layers)
    attending = {match[1] for name in layers if (match := re.match(r"up_blocks\.(\d+)\.attentions\.", name))}
    return {_name(layer, per_block, attending): (Piece(layer),) for layer in layers}


def _name(layer: str, per_block: int, attending: set[str]) -> str:
    if layer in _AROUND:
        return _AROUND[layer]
    match = _LAYER.fullmatch(layer)
    if match is None:
        raise ValueError(f"{layer} is no layer of this kind of UNet")
    kind, rest = match["kind"], match["rest"]
    rest = _RESIDUAL.get(rest, rest)
    if match["side"] is None:
        place_there = _MIDDLE[f"{kind}.{match['place']}"]
        return f"middle_block.{place_there}.{rest}"
    first = int(match["block"]) * (per_block + 1)
    place = first + int(match["place"])
    if match["side"] == "down":
        # Block 0 is conv_in.
        if kind == "downsamplers":
            return f"input_blocks.{first + per_block + 1}.0.op"
        return f"input_blocks.{place + 1}.{int(kind == 'attentions')}.{rest}"
    if kind == "upsamplers":
        return f"output_blocks.{first + per_block}.{1 + (match['block'] in attending)}.conv"
    return f"output_blocks.{place}.{int(kind == 'attentions')}.{rest}"
