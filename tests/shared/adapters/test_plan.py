"""Which files are taken for which layers, and what the others are told."""

from __future__ import annotations

import json
import math

import pytest

from shared.adapter_layers import LayerShape
from shared.adapters.base import BaseLayers
from shared.adapters.header import Header, TensorEntry
from shared.adapters.kinds import KINDS
from shared.adapters.names import Dialect
from shared.adapters.plan import AdapterPlan, LayerPlan, plan_adapter
from shared.errors import (
    AdapterError,
    AdapterMismatch,
    AdapterNotFinite,
    AdapterRankTooLarge,
    AdapterUnreadable,
    AdapterUnsupported,
)
from shared.families.bundled import bundled_models
from shared.families.flux import FLUX
from shared.families.sd15 import SD15

Shapes = dict[str, tuple[int, ...]]

BLOCK = "transformer_blocks.0.attn"
LAYER = f"{BLOCK}.to_q"
FUSED = {
    f"transformer.{BLOCK}.{name}": LayerShape(8, 8)
    for name in ("to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj", "to_out.0", "to_add_out")
}
BASE = BaseLayers(
    FLUX,
    {
        **FUSED,
        **{
            f"transformer.transformer_blocks.0.{name}": LayerShape(8, 32)
            for name in ("ff.net.0.proj", "ff_context.net.0.proj")
        },
        **{f"transformer.transformer_blocks.0.{name}": LayerShape(32, 8) for name in ("ff.net.2", "ff_context.net.2")},
        **{
            f"transformer.transformer_blocks.0.{name}": LayerShape(8, 48)
            for name in ("norm1.linear", "norm1_context.linear")
        },
        "transformer.x_embedder": LayerShape(4, 8),
        "transformer.norm_out.linear": LayerShape(8, 16),
    },
    top_rank=16,
)
DOWN, UP = f"transformer.{LAYER}.lora_A.weight", f"transformer.{LAYER}.lora_B.weight"
GOOD: Shapes = {DOWN: (4, 8), UP: (8, 4)}


def header(shapes: Shapes, metadata: dict[str, str] | None = None, dtype: str = "F32") -> Header:
    return Header({name: TensorEntry(dtype, shape, 0, 0) for name, shape in shapes.items()}, metadata or {})


def plan(
    shapes: Shapes, metadata: dict[str, str] | None = None, base: BaseLayers = BASE, config: str | None = None
) -> AdapterPlan:
    found = plan_adapter(header(shapes, metadata), base, config)
    # Every key is accounted for, whatever the file.
    assert {key for layer in found.layers for key in layer.keys} == set(shapes)
    return found


def one(found: AdapterPlan) -> LayerPlan:
    (layer,) = found.layers
    return layer


# --- dialects -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "endings", "dialect"),
    [
        (f"transformer.{LAYER}", ("lora_A.weight", "lora_B.weight"), Dialect.DIFFUSERS),
        (f"transformer.{LAYER}", ("lora_down.weight", "lora_up.weight"), Dialect.DIFFUSERS),
        (f"transformer.{LAYER}", ("lora.down.weight", "lora.up.weight"), Dialect.DIFFUSERS_OLD),
        (f"transformer.{BLOCK}.processor.to_q_lora", ("down.weight", "up.weight"), Dialect.DIFFUSERS_OLD),
        (f"base_model.model.{LAYER}", ("lora_A.weight", "lora_B.weight"), Dialect.PEFT),
        (LAYER, ("lora_A.weight", "lora_B.weight"), Dialect.PEFT),
        ("lora_transformer_transformer_blocks_0_attn_to_q", ("lora_down.weight", "lora_up.weight"), Dialect.ONETRAINER),
    ],
)
def test_each_spelling_of_one_layer_is_read(name: str, endings: tuple[str, str], dialect: Dialect) -> None:
    keys: Shapes = {f"{name}.{endings[0]}": (4, 8), f"{name}.{endings[1]}": (8, 4), f"{name}.alpha": ()}
    found = plan(keys)
    layer = one(found)
    assert (layer.layer, layer.rank, layer.rows) == (f"transformer.{LAYER}", 4, None)
    assert layer.keys == tuple(keys)
    assert found.dialect is dialect
    assert found.renamed is (found.dialect is not Dialect.DIFFUSERS or "lora_A" not in endings[0])


@pytest.mark.parametrize(
    ("name", "endings", "dialect"),
    [
        ("lora_unet_double_blocks_0_img_attn_qkv", ("lora_down.weight", "lora_up.weight"), Dialect.KOHYA),
        ("diffusion_model.double_blocks.0.img_attn.qkv", ("lora_A.weight", "lora_B.weight"), Dialect.COMFYUI),
        ("diffusion_model.double_blocks.0.img_attn.qkv", ("lora_down.weight", "lora_up.weight"), Dialect.COMFYUI),
        ("double_blocks.0.processor.qkv_lora1", ("down.weight", "up.weight"), Dialect.XLABS),
        ("diffusion_model.double_blocks.0.processor.qkv_lora1", ("down.weight", "up.weight"), Dialect.XLABS),
    ],
)
def test_a_fused_layer_is_split_by_rows(name: str, endings: tuple[str, str], dialect: Dialect) -> None:
    found = plan({f"{name}.{endings[0]}": (4, 8), f"{name}.{endings[1]}": (24, 4)})
    rows = {layer.layer.removeprefix(f"transformer.{BLOCK}."): layer.rows for layer in found.layers}
    assert rows == {"to_q": ((0, 8),), "to_k": ((8, 16),), "to_v": ((16, 24),)}
    assert found.dialect is dialect


def test_scale_and_shift_change_places() -> None:
    name = "lora_unet_final_layer_adaLN_modulation_1"
    assert one(plan({f"{name}.lora_down.weight": (4, 8), f"{name}.lora_up.weight": (16, 4)})).rows == ((8, 16), (0, 8))


SD = BaseLayers(
    SD15,
    {
        name: shape
        for name, shape in bundled_models()["sd1.5"].layers().items()
        if "down_blocks.0" in name or "layers.0." in name or "up_blocks.3.attentions.0.proj" in name
    },
    top_rank=16,
)
SDXL = BaseLayers(bundled_models()["sdxl-base-1.0"].family, bundled_models()["sdxl-base-1.0"].layers(), top_rank=64)


@pytest.mark.parametrize(
    ("base", "name", "layer"),
    [
        (
            SD,
            "unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.processor.to_out_lora",
            "unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_out.0",
        ),
        (
            SD,
            "down_blocks.0.attentions.0.transformer_blocks.0.attn2.processor.to_k_lora",
            "unet.down_blocks.0.attentions.0.transformer_blocks.0.attn2.to_k",
        ),
        (SD, "unet.down_blocks.0.attentions.0.proj_in.lora", "unet.down_blocks.0.attentions.0.proj_in"),
        (
            SD,
            "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_ff_net_0_proj",
            "unet.down_blocks.0.attentions.0.transformer_blocks.0.ff.net.0.proj",
        ),
        (SD, "lora_unet_down_blocks_0_resnets_1_conv1", "unet.down_blocks.0.resnets.1.conv1"),
        (SD, "lora_unet_down_blocks_0_downsamplers_0_conv", "unet.down_blocks.0.downsamplers.0.conv"),
        (SD, "lora_te_text_model_encoder_layers_0_mlp_fc1", "text_encoder.encoder.layers.0.mlp.fc1"),
        (SD, "lora_te1_text_model_encoder_layers_0_mlp_fc1", "text_encoder.encoder.layers.0.mlp.fc1"),
        (
            SD,
            "text_encoder.text_model.encoder.layers.0.self_attn.to_out_lora",
            "text_encoder.encoder.layers.0.self_attn.out_proj",
        ),
        (
            SD,
            "text_encoder.text_model.encoder.layers.0.mlp.fc2.lora_linear_layer",
            "text_encoder.encoder.layers.0.mlp.fc2",
        ),
        (SD, "text_encoder.text_model.encoder.layers.0.mlp.fc2", "text_encoder.encoder.layers.0.mlp.fc2"),
        (
            SD,
            "text_encoders.clip_l.transformer.text_model.encoder.layers.0.mlp.fc2",
            "text_encoder.encoder.layers.0.mlp.fc2",
        ),
        (SDXL, "lora_unet_input_blocks_0_0", "unet.conv_in"),
        (SDXL, "lora_unet_input_blocks_1_0_in_layers_2", "unet.down_blocks.0.resnets.0.conv1"),
        (SDXL, "lora_unet_input_blocks_3_0_op", "unet.down_blocks.0.downsamplers.0.conv"),
        (SDXL, "lora_unet_input_blocks_4_0_skip_connection", "unet.down_blocks.1.resnets.0.conv_shortcut"),
        (
            SDXL,
            "lora_unet_input_blocks_8_1_transformer_blocks_9_attn2_to_k",
            "unet.down_blocks.2.attentions.1.transformer_blocks.9.attn2.to_k",
        ),
        (SDXL, "lora_unet_middle_block_1_proj_in", "unet.mid_block.attentions.0.proj_in"),
        (SDXL, "lora_unet_middle_block_2_emb_layers_1", "unet.mid_block.resnets.1.time_emb_proj"),
        (SDXL, "lora_unet_output_blocks_2_2_conv", "unet.up_blocks.0.upsamplers.0.conv"),
        (
            SDXL,
            "lora_unet_output_blocks_5_1_transformer_blocks_1_attn1_to_out_0",
            "unet.up_blocks.1.attentions.2.transformer_blocks.1.attn1.to_out.0",
        ),
        (SDXL, "lora_unet_output_blocks_8_0_out_layers_3", "unet.up_blocks.2.resnets.2.conv2"),
        (SDXL, "lora_unet_label_emb_0_2", "unet.add_embedding.linear_2"),
        (SDXL, "lora_unet_out_2", "unet.conv_out"),
        (
            SDXL,
            "lora_te2_text_model_encoder_layers_31_self_attn_q_proj",
            "text_encoder_2.text_model.encoder.layers.31.self_attn.q_proj",
        ),
        (SDXL, "lora_te2_text_projection", "text_encoder_2.text_projection"),
        (
            SDXL,
            "text_encoders.clip_g.transformer.text_model.encoder.layers.3.mlp.fc1",
            "text_encoder_2.text_model.encoder.layers.3.mlp.fc1",
        ),
        (SDXL, "diffusion_model.input_blocks.8.1.proj_out", "unet.down_blocks.2.attentions.1.proj_out"),
        (
            SDXL,
            "text_encoder_2.text_model.encoder.layers.3.self_attn.k_proj",
            "text_encoder_2.text_model.encoder.layers.3.self_attn.k_proj",
        ),
    ],
)
def test_names_in_unets_and_text_encoders(base: BaseLayers, name: str, layer: str) -> None:
    shape = base.layers[layer]
    old = name.endswith(("_lora", ".lora", ".lora_linear_layer"))
    down, up = ("down.weight", "up.weight") if old else ("lora_down.weight", "lora_up.weight")
    points = () if shape.kernel is None else (1, 1)
    found = plan(
        {f"{name}.{down}": (4, shape.inputs, *(shape.kernel or ())), f"{name}.{up}": (shape.outputs, 4, *points)},
        base=base,
    )
    assert one(found).layer == layer


@pytest.mark.parametrize("points", [(), (1, 1)])
def test_a_convolution_of_one_point_and_a_linear_layer_are_the_same(points: tuple[int, ...]) -> None:
    proj = "lora_unet_down_blocks_0_attentions_0_proj_in"
    query = "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q"
    keys = {
        f"{name}.{half}.weight": (*shape, *points)
        for name in (proj, query)
        for half, shape in (("lora_down", (4, 320)), ("lora_up", (320, 4)))
    }
    assert len(plan(keys, base=SD).layers) == 2


# --- refused by name ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.reason)
def test_each_kind_is_refused_by_name(kind: object) -> None:
    assert isinstance(kind, type(KINDS[0]))
    with pytest.raises(AdapterUnsupported) as caught:
        plan({**GOOD, kind.example: (4, 8)})
    assert caught.value.reason == kind.reason
    assert caught.value.message.startswith(kind.sentence)
    assert kind.example in caught.value.message


KOHYA = "lora_unet_double_blocks_0_img_attn_proj"

# Names as public files of each kind have them.
REFUSED: list[tuple[str, list[str], type[AdapterError], str, str]] = [
    (
        "onetrainer dora",
        [
            "lora_te1_text_model_encoder_layers_0_mlp_fc1.lora_down.weight",
            "lora_te1_text_model_encoder_layers_0_mlp_fc1.dora_scale",
        ],
        AdapterUnsupported,
        "dora",
        "DoRA",
    ),
    ("peft dora", [DOWN, UP, f"transformer.{LAYER}.lora_magnitude_vector"], AdapterUnsupported, "dora", "DoRA"),
    ("loha", [f"{KOHYA}.hada_w1_a", f"{KOHYA}.hada_w1_b"], AdapterUnsupported, "loha", "LoHa"),
    ("lokr", [f"{KOHYA}.lokr_w1", f"{KOHYA}.lokr_w2"], AdapterUnsupported, "lokr", "LoKr"),
    ("lokr peft", [f"transformer.{LAYER}.lokr_w1"], AdapterUnsupported, "lokr", "LoKr"),
    (
        "diff",
        [DOWN, UP, "transformer.norm_out.linear.diff"],
        AdapterUnsupported,
        "full_diff",
        "full weight differences",
    ),
    (
        "norm diff",
        [DOWN, UP, "lora_te_text_model_encoder_layers_0_layer_norm1.w_norm"],
        AdapterUnsupported,
        "norm",
        "norm weights",
    ),
    ("bias", [DOWN, UP, f"transformer.{LAYER}.lora_B.bias"], AdapterUnsupported, "bias", "biases"),
    (
        "control",
        ["double_blocks.0.img_attn.norm.key_norm.scale", "double_blocks.0.img_attn.proj.lora_B.bias"],
        AdapterUnsupported,
        "control",
        "control adapter",
    ),
    (
        "norm",
        [DOWN, UP, "transformer.transformer_blocks.0.attn.norm_q.weight"],
        AdapterUnsupported,
        "control",
        "norm weights",
    ),
    ("fp8 with scales", [DOWN, UP, "scaled_fp8"], AdapterUnsupported, "scaled_fp8", "scales of their own"),
    ("checkpoint", ["model.diffusion_model.input_blocks.0.0.weight"], AdapterUnsupported, "checkpoint", "whole model"),
    (
        "clip",
        [DOWN, UP, "text_encoder.text_model.encoder.layers.0.mlp.fc1.lora_A.weight"],
        AdapterUnsupported,
        "text_encoder",
        "text encoders",
    ),
    (
        "kohya clip",
        [DOWN, UP, "lora_te1_text_model_encoder_layers_0_mlp_fc1.lora_down.weight"],
        AdapterUnsupported,
        "text_encoder",
        "text encoders",
    ),
    (
        "t5",
        [DOWN, UP, "text_encoders.t5xxl.transformer.encoder.block.0.layer.0.SelfAttention.k.lora_down.weight"],
        AdapterUnsupported,
        "t5",
        "T5",
    ),
    (
        "sdxl",
        ["lora_unet_input_blocks_4_1_proj_in.lora_down.weight", "lora_unet_input_blocks_4_1_proj_in.lora_up.weight"],
        AdapterMismatch,
        "other_family",
        "sdxl",
    ),
    (
        "sd 1.5",
        ["unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q.lora_A.weight"],
        AdapterMismatch,
        "other_family",
        "sd1.5|sdxl",
    ),
    ("unknown prefix", ["something.else.lora_A.weight"], AdapterUnsupported, "unknown_names", "no dialect"),
    ("unknown file", ["weights", "more"], AdapterUnsupported, "unknown_names", "no dialect"),
    (
        "unknown ending",
        [DOWN, UP, f"transformer.{LAYER}.lora_A.default.weight"],
        AdapterUnsupported,
        "unknown_keys",
        "unknown meaning",
    ),
    ("scalar", [DOWN, UP, f"{KOHYA}.scalar"], AdapterUnsupported, "unknown_keys", "unknown meaning"),
    (
        "no such layer",
        [DOWN, UP, f"transformer.{LAYER}.processor.to_q_lora.down.weight"],
        AdapterMismatch,
        "no_such_layer",
        "no such layers",
    ),
    ("another block", [DOWN.replace("blocks.0", "blocks.77")], AdapterMismatch, "no_such_layer", "no such layers"),
    (
        "peft, strength unknown",
        [f"base_model.model.{LAYER}.lora_A.weight", f"base_model.model.{LAYER}.lora_B.weight"],
        AdapterUnsupported,
        "strength_unknown",
        r"adapter_config\.json",
    ),
    (
        "bare, strength unknown",
        [f"{LAYER}.lora_A.weight", f"{LAYER}.lora_B.weight"],
        AdapterUnsupported,
        "strength_unknown",
        r"adapter_config\.json",
    ),
]


@pytest.mark.parametrize(
    ("keys", "error", "reason", "words"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_what_is_not_served_is_named(keys: list[str], error: type[AdapterError], reason: str, words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        plan({key: (8, 4) if key.endswith(("B.weight", "up.weight")) else (4, 8) for key in keys})
    assert caught.value.reason == reason
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ([DOWN, UP, "transformer.x_embedder.lora_down.weight"], r"mixes .*lora_A.* and .*lora_down"),
        ([DOWN, UP, f"{KOHYA}.lora_down.weight"], "mixes diffusers and kohya"),
        ([DOWN, UP, f"transformer.{LAYER}.lora_down.weight"], "names one layer twice"),
    ],
)
def test_what_counts_must_be_clear(keys: list[str], words: str) -> None:
    with pytest.raises(AdapterUnsupported, match=words) as caught:
        plan(dict.fromkeys(keys, (4, 8)))
    assert caught.value.reason == "ambiguous"


def test_a_fused_layer_and_one_of_its_parts() -> None:
    qkv, query = "diffusion_model.double_blocks.0.img_attn.qkv", f"diffusion_model.{LAYER}"
    with pytest.raises(AdapterMismatch, match="no such layers"):
        plan({f"{qkv}.lora_A.weight": (4, 8), f"{qkv}.lora_B.weight": (24, 4), f"{query}.lora_A.weight": (4, 8)})
    xlabs, plain = "double_blocks.0.processor.qkv_lora1", f"transformer.{BLOCK}.processor.to_q_lora"
    with pytest.raises(AdapterUnsupported, match="mixes"):
        plan({f"{name}.{half}.weight": (4, 4) for name in (xlabs, plain) for half in ("down", "up")})
    bare = {"double_blocks.0.img_attn.qkv": 24, f"base_model.model.{LAYER}": 8}
    keys = {
        f"{name}.{ending}": shape
        for name, outputs in bare.items()
        for ending, shape in (("lora_A.weight", (4, 8)), ("lora_B.weight", (outputs, 4)), ("alpha", ()))
    }
    with pytest.raises(AdapterUnsupported, match="occurs twice"):
        plan(keys)


def test_a_refusal_names_the_first_keys_and_not_all() -> None:
    keys = [f"lora_unet_double_blocks_{i}_img_mod_lin.hada_w1_a" for i in range(700)]
    with pytest.raises(AdapterUnsupported, match="first of 700") as caught:
        plan(dict.fromkeys(keys, (4, 8)))
    assert keys[0] in caught.value.message
    assert len(caught.value.message) < 600


def test_no_tensors() -> None:
    with pytest.raises(AdapterUnsupported, match="no tensors"):
        plan({})


def test_a_widened_input_is_a_control_adapter() -> None:
    with pytest.raises(AdapterUnsupported, match="widens x_embedder from 4 to 8") as caught:
        plan({"transformer.x_embedder.lora_A.weight": (4, 8), "transformer.x_embedder.lora_B.weight": (8, 4)})
    assert caught.value.reason == "control"


CONV = "lora_unet_down_blocks_0_resnets_0_conv1"


@pytest.mark.parametrize(
    ("shapes", "error", "words"),
    [
        ({DOWN: (4, 8)}, AdapterMismatch, "not its up half"),
        ({UP: (8, 4)}, AdapterMismatch, "not its down half"),
        ({**GOOD, "transformer.x_embedder.alpha": ()}, AdapterMismatch, "x_embedder"),
        ({DOWN: (4, 16), UP: (16, 4)}, AdapterMismatch, "16 inputs and 16 outputs.*8 inputs and 8 outputs"),
        ({DOWN: (4, 8), UP: (8, 5)}, AdapterMismatch, "A is 4 x 8 and B is 8 x 5"),
        ({DOWN: (0, 8), UP: (8, 0)}, AdapterMismatch, "expected rank x 8"),
        ({DOWN: (4, 8, 3, 3), UP: (8, 4, 1, 1)}, AdapterMismatch, "expected rank x 8"),
        ({DOWN: (4, 8, 1), UP: (8, 4)}, AdapterMismatch, "expected rank x 8"),
        ({**GOOD, f"transformer.{LAYER}.alpha": (2,)}, AdapterMismatch, "expected one number"),
        ({DOWN: (17, 8), UP: (8, 17)}, AdapterRankTooLarge, "rank 17.*16"),
    ],
)
def test_what_does_not_fit_is_refused(shapes: Shapes, error: type[AdapterError], words: str) -> None:
    with pytest.raises(error, match=words):
        plan(shapes)


@pytest.mark.parametrize("kernel", [(1, 1), (5, 5), (3, 1), ()])
def test_a_convolution_of_another_kernel(kernel: tuple[int, ...]) -> None:
    with pytest.raises(AdapterMismatch, match="rank x 320 x 3 x 3"):
        plan({f"{CONV}.lora_down.weight": (4, 320, *kernel), f"{CONV}.lora_up.weight": (320, 4, 1, 1)}, base=SD)


@pytest.mark.parametrize(
    ("dtype", "taken"),
    [("F64", True), ("F8_E4M3", True), ("F8_E5M2", True), ("I8", False), ("F8_E8M0", False), ("F4", False)],
)
def test_dtypes(dtype: str, taken: bool) -> None:
    if taken:
        assert plan_adapter(header(GOOD, dtype=dtype), BASE).layers
    else:
        with pytest.raises(AdapterUnsupported, match=f"stored as {dtype}"):
            plan_adapter(header(GOOD, dtype=dtype), BASE)


def test_only_an_alpha_may_be_a_whole_number() -> None:
    tensors = {**header(GOOD).tensors, f"transformer.{LAYER}.alpha": TensorEntry("I64", (), 0, 0)}
    assert plan_adapter(Header(tensors, {}), BASE).rank == 4


# --- strengths ------------------------------------------------------------------------------------


def metadata(**fields: object) -> dict[str, str]:
    config = {"r": 4, "lora_alpha": 8, **fields}
    return {"lora_adapter_metadata": json.dumps({f"transformer.{key}": value for key, value in config.items()})}


def strength(found: AdapterPlan) -> float:
    said = one(found).strength
    return 1.0 if said.alpha is None else said.alpha / said.divisor


def test_strength_from_metadata() -> None:
    assert strength(plan(GOOD)) == 1.0
    assert strength(plan(GOOD, metadata())) == 2.0
    assert strength(plan(GOOD, metadata(use_rslora=True))) == 4.0
    assert strength(plan(GOOD, metadata(alpha_pattern={"to_q": 1}))) == 0.25
    assert strength(plan(GOOD, metadata(alpha_pattern={"o_q": 1}))) == 2.0
    assert strength(plan(GOOD, metadata(alpha_pattern={"^to_q": 1}))) == 2.0
    assert strength(plan(GOOD, metadata(alpha_pattern={rf"^{LAYER}": 2}))) == 0.5
    assert strength(plan(GOOD, metadata(alpha_pattern={r"attn\.to.q": 2}))) == 0.5
    assert strength(plan(GOOD, metadata(r=64, rank_pattern={LAYER: 4}))) == 2.0


@pytest.mark.parametrize("name", [LAYER, f"base_model.model.{LAYER}"])
def test_peft_says_the_strength_beside_the_file(name: str) -> None:
    keys: Shapes = {f"{name}.lora_A.weight": (4, 8), f"{name}.lora_B.weight": (8, 4)}
    config = {"r": 4, "lora_alpha": 2, "use_rslora": True, "peft_type": "LORA", "target_modules": ["to_q"]}
    said = one(plan(keys, config=json.dumps(config))).strength
    assert (said.alpha, said.divisor) == (2.0, math.sqrt(4))
    assert strength(plan(keys, metadata(), config=json.dumps(config))) == 2.0
    with pytest.raises(AdapterUnsupported, match="use_dora"):
        plan(keys, config=json.dumps({**config, "use_dora": True}))
    with pytest.raises(AdapterUnreadable, match=r"adapter_config\.json"):
        plan(keys, config="<html>")


def test_a_config_beside_a_file_of_another_dialect_means_nothing() -> None:
    assert strength(plan(GOOD, config=json.dumps({"r": 4, "lora_alpha": 2}))) == 1.0


def test_each_component_has_a_config_of_its_own() -> None:
    name = "text_encoder.text_model.encoder.layers.0.mlp.fc1"
    keys: Shapes = {f"{name}.lora_A.weight": (4, 768), f"{name}.lora_B.weight": (3072, 4)}
    fields = {"text_encoder.r": 8, "text_encoder.lora_alpha": 2, "unet.r": 64, "unet.lora_alpha": 1}
    fields["text_encoder.rank_pattern"] = {"text_model.encoder.layers.0.mlp.fc1": 4}  # type: ignore[assignment]
    assert strength(plan(keys, {"lora_adapter_metadata": json.dumps(fields)}, base=SD)) == 0.5


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"use_dora": True}, AdapterUnsupported),
        ({"lora_bias": True}, AdapterUnsupported),
        ({"bias": "all"}, AdapterUnsupported),
        ({"init_lora_weights": "pissa"}, AdapterUnsupported),
        ({"peft_type": "LOKR"}, AdapterUnsupported),
        ({"modules_to_save": ["proj_out"]}, AdapterUnsupported),
        ({"a_field_of_tomorrow": 1}, AdapterUnsupported),
        ({"a_field_of_tomorrow": json.loads("[" * 900 + "]" * 900)}, AdapterUnsupported),
        ({"r": "4"}, AdapterUnsupported),
        ({"lora_alpha": None}, AdapterUnsupported),
        ({"lora_alpha": float("nan")}, AdapterNotFinite),
        ({"lora_alpha": 10**400}, AdapterNotFinite),
        ({"alpha_pattern": {"(a+)+b": 1}}, AdapterUnsupported),
        ({"alpha_pattern": {f"layer{i}": 1 for i in range(5000)}}, AdapterUnsupported),
        ({"alpha_pattern": [1]}, AdapterUnsupported),
    ],
)
def test_metadata_that_means_something_else_is_refused(fields: dict[str, object], error: type[AdapterError]) -> None:
    with pytest.raises(error):
        plan(GOOD, metadata(**fields))


def test_metadata_of_another_rank_is_refused() -> None:
    with pytest.raises(AdapterMismatch, match=r"rank 8.*rank 4"):
        plan(GOOD, metadata(r=8))


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 100_000])
def test_metadata_that_cannot_be_read(text: str) -> None:
    with pytest.raises(AdapterUnreadable):
        plan(GOOD, {"lora_adapter_metadata": text})


def test_metadata_of_no_component_is_refused() -> None:
    with pytest.raises(AdapterUnsupported, match="belong to none of transformer, text_encoder"):
        plan(GOOD, {"lora_adapter_metadata": json.dumps({"r": 4, "lora_alpha": 8})})
