"""The layer tables are those of the real models, built without weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import nn

from shared.adapter_layers import LayerShape
from shared.families.bundled import BundledModel, bundled_models
from shared.families.flux import transformer_layers
from shared.families.unet import unet_layers
from worker.libraries import CLIPTextConfig, CLIPTextModel, FluxTransformer2DModel, diffusers, transformers

UNet = diffusers.UNet2DConditionModel


def layers_of(model: nn.Module) -> dict[str, LayerShape]:
    """Every linear layer and convolution, as a model of these libraries has it."""
    found = {}
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear):
            found[name] = LayerShape(layer.in_features, layer.out_features)
        elif isinstance(layer, nn.Conv2d):
            high, wide = layer.kernel_size
            found[name] = LayerShape(layer.in_channels, layer.out_channels, (high, wide))
    return found


def build(component: str, config: Mapping[str, Any]) -> nn.Module:
    fields = {key: value for key, value in config.items() if key not in ("_class_name", "architectures")}
    if component == "transformer":
        return FluxTransformer2DModel(**fields)
    if component == "unet":
        return UNet(**fields)
    with_projection = config["architectures"] == ["CLIPTextModelWithProjection"]
    kind = transformers.CLIPTextModelWithProjection if with_projection else CLIPTextModel
    return kind(CLIPTextConfig(**fields))


@pytest.mark.parametrize("bundled", bundled_models().values(), ids=lambda bundled: bundled.name)
def test_bundled_models_have_the_layers_of_the_real_ones(bundled: BundledModel) -> None:
    expected = {}
    for component, config in bundled.configs.items():
        with torch.device("meta"):
            model = build(component, config)
        expected |= {f"{component}.{name}": shape for name, shape in layers_of(model).items()}
    assert bundled.layers() == expected


def test_the_published_models_are_bundled() -> None:
    counts = {name: len(bundled.layers()) for name, bundled in bundled_models().items()}
    # Transformer or UNet, and the text encoders: 12 blocks of 6, and 32 blocks of 6 with one projection.
    assert counts["flux.1-dev"] == 504 + 72
    assert counts["flux.1-schnell"] == 502 + 72
    assert counts["sdxl-base-1.0"] == 794 + 72 + 193
    assert counts["sd1.5"] == 282 + 72


UNETS = {
    "one layer, three widths": {
        "block_out_channels": (8, 16, 24),
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D", "CrossAttnUpBlock2D"),
        "layers_per_block": 1,
    },
    "linear, text and time": {
        "block_out_channels": (8, 16),
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
        "layers_per_block": 2,
        "transformer_layers_per_block": (1, 3),
        "use_linear_projection": True,
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 8,
        "projection_class_embeddings_input_dim": 80,
    },
    "one block": {
        "block_out_channels": (8,),
        "down_block_types": ("CrossAttnDownBlock2D",),
        "up_block_types": ("CrossAttnUpBlock2D",),
        "layers_per_block": 3,
    },
}


@pytest.mark.parametrize("shape", UNETS.values(), ids=UNETS)
def test_other_unets(shape: dict[str, Any]) -> None:
    with torch.device("meta"):
        model = UNet(**shape, cross_attention_dim=12, norm_num_groups=4, attention_head_dim=4)
    assert unet_layers(model.config) == layers_of(model)


def test_another_transformer() -> None:
    with torch.device("meta"):
        model = FluxTransformer2DModel(
            patch_size=2,
            in_channels=8,
            out_channels=4,
            num_layers=1,
            num_single_layers=11,
            attention_head_dim=8,
            num_attention_heads=2,
            joint_attention_dim=24,
            pooled_projection_dim=20,
        )
    assert transformer_layers(model.config) == layers_of(model)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"down_block_types": ["SimpleCrossAttnDownBlock2D"] * 3}, "SimpleCrossAttnDownBlock2D"),
        ({"up_block_types": ["UpBlock2D"]}, "3 names"),
        ({"mid_block_type": "UNetMidBlock2D"}, "UNetMidBlock2D"),
        ({"block_out_channels": 320}, "not as whole numbers"),
        ({"layers_per_block": None}, "layers_per_block as None"),
    ],
)
def test_other_configs_are_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        unet_layers({**bundled_models()["sdxl-base-1.0"].configs["unet"], **change})
