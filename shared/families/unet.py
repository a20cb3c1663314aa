"""The UNet of SD 1.5 and SDXL: its linear layers and convolutions, from diffusers' config."""

from __future__ import annotations

from collections.abc import Sequence

from shared.adapter_layers import LayerShape
from shared.families.family import Config, Layers, number

_ATTENDING = {"CrossAttnDownBlock2D", "CrossAttnUpBlock2D"}
_PLAIN = {"DownBlock2D", "UpBlock2D"}
_MIDDLE = "UNetMidBlock2DCrossAttn"
_FEED_FORWARD = 4
_SQUARE = (3, 3)
_POINT = (1, 1)


def unet_layers(config: Config) -> Layers:
    """Every linear layer and convolution of diffusers' ``UNet2DConditionModel`` with the blocks of these families."""
    return _Unet(config).layers()


class _Unet:
    """One config, read; each method is one part of the model."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.widths = _whole_numbers(config, "block_out_channels")
        self.deep = len(self.widths)
        self.per_block = number(config, "layers_per_block")
        self.context = number(config, "cross_attention_dim")
        self.embedding = self.widths[0] * 4
        self.linear_projection = bool(config.get("use_linear_projection"))
        depths = config.get("transformer_layers_per_block", 1)
        self.depths = [depths] * self.deep if isinstance(depths, int) else list(depths)
        self.down_types = self._types("down_block_types")
        self.up_types = self._types("up_block_types")
        if config.get("mid_block_type", _MIDDLE) != _MIDDLE:
            raise ValueError(f"the middle block {config['mid_block_type']!r} is of a kind that is not known")

    def layers(self) -> Layers:
        first, last = self.widths[0], self.widths[-1]
        found = {
            "conv_in": LayerShape(number(self.config, "in_channels"), first, _SQUARE),
            "conv_out": LayerShape(first, number(self.config, "out_channels"), _SQUARE),
            **self._embedder("time_embedding", first),
        }
        if self.config.get("addition_embed_type") == "text_time":
            found |= self._embedder("add_embedding", number(self.config, "projection_class_embeddings_input_dim"))
        found |= self._down()
        for place in (0, 1):
            found |= self._residual(f"mid_block.resnets.{place}", last, last)
        found |= self._attention("mid_block.attentions.0", last, self.depths[-1])
        return found | self._up()

    def _types(self, key: str) -> Sequence[str]:
        types = self.config.get(key)
        if not isinstance(types, list | tuple) or len(types) != self.deep:
            raise ValueError(f"the config gives {key} as {types!r}, not as {self.deep} names")
        for kind in types:
            if kind not in _ATTENDING | _PLAIN:
                raise ValueError(f"the block {kind!r} is of a kind that is not known")
        return types

    def _embedder(self, name: str, inputs: int) -> Layers:
        return {
            f"{name}.linear_1": LayerShape(inputs, self.embedding),
            f"{name}.linear_2": LayerShape(self.embedding, self.embedding),
        }

    def _down(self) -> Layers:
        found: Layers = {}
        before = self.widths[0]
        for place, (kind, width) in enumerate(zip(self.down_types, self.widths, strict=True)):
            block = f"down_blocks.{place}"
            for layer in range(self.per_block):
                found |= self._residual(f"{block}.resnets.{layer}", before if layer == 0 else width, width)
                if kind in _ATTENDING:
                    found |= self._attention(f"{block}.attentions.{layer}", width, self.depths[place])
            if place < self.deep - 1:
                found[f"{block}.downsamplers.0.conv"] = LayerShape(width, width, _SQUARE)
            before = width
        return found

    def _up(self) -> Layers:
        found: Layers = {}
        widths, depths = self.widths[::-1], self.depths[::-1]
        # What each layer on the way down handed over, the last first.
        skipped = [self.widths[0]]
        for place, width in enumerate(self.widths):
            skipped += [width] * (self.per_block + (place < self.deep - 1))
        before = widths[0]
        for place, (kind, width) in enumerate(zip(self.up_types, widths, strict=True)):
            block = f"up_blocks.{place}"
            for layer in range(self.per_block + 1):
                found |= self._residual(f"{block}.resnets.{layer}", before + skipped.pop(), width)
                if kind in _ATTENDING:
                    found |= self._attention(f"{block}.attentions.{layer}", width, depths[place])
                before = width
            if place < self.deep - 1:
                found[f"{block}.upsamplers.0.conv"] = LayerShape(width, width, _SQUARE)
        return found

    def _residual(self, name: str, inputs: int, outputs: int) -> Layers:
        found = {
            f"{name}.conv1": LayerShape(inputs, outputs, _SQUARE),
            f"{name}.time_emb_proj": LayerShape(self.embedding, outputs),
            f"{name}.conv2": LayerShape(outputs, outputs, _SQUARE),
        }
        if inputs != outputs:
            found[f"{name}.conv_shortcut"] = LayerShape(inputs, outputs, _POINT)
        return found

    def _attention(self, name: str, width: int, depth: int) -> Layers:
        projection = LayerShape(width, width, None if self.linear_projection else _POINT)
        found = {f"{name}.proj_in": projection, f"{name}.proj_out": projection}
        for place in range(depth):
            block = f"{name}.transformer_blocks.{place}"
            for attention, context in (("attn1", width), ("attn2", self.context)):
                found[f"{block}.{attention}.to_q"] = LayerShape(width, width)
                found[f"{block}.{attention}.to_k"] = LayerShape(context, width)
                found[f"{block}.{attention}.to_v"] = LayerShape(context, width)
                found[f"{block}.{attention}.to_out.0"] = LayerShape(width, width)
            # The first half of the wide layer gates the second.
            found[f"{block}.ff.net.0.proj"] = LayerShape(width, 2 * _FEED_FORWARD * width)
            found[f"{block}.ff.net.2"] = LayerShape(_FEED_FORWARD * width, width)
        return found


def _whole_numbers(config: Config, key: str) -> list[int]:
    values = config.get(key)
    if not isinstance(values, list | tuple) or not values or not all(type(value) is int for value in values):
        raise ValueError(f"the config gives {key} as {values!r}, not as whole numbers")
    return list(values)
