from __future__ import annotations

import json

import pytest

from shared.errors import (
    AdapterError,
    AdapterMismatch,
    AdapterNotFinite,
    AdapterRankTooLarge,
    AdapterUnreadable,
    AdapterUnsupported,
)
from worker.dialect import AdapterPlan, LayerShape, plan_adapter
from worker.header import Header, TensorEntry

LAYER = "transformer_blocks.0.attn.to_q"
SHAPES = {
    LAYER: LayerShape(8, 8),
    "single_transformer_blocks.0.proj_out": LayerShape(24, 8),
    "x_embedder": LayerShape(4, 8),
}
DOWN, UP = f"transformer.{LAYER}.lora_A.weight", f"transformer.{LAYER}.lora_B.weight"


def header(shapes: dict[str, tuple[int, ...]], metadata: dict[str, str] | None = None, dtype: str = "F32") -> Header:
    return Header({name: TensorEntry(dtype, shape, 0, 0) for name, shape in shapes.items()}, metadata or {})


def plan(shapes: dict[str, tuple[int, ...]], metadata: dict[str, str] | None = None) -> AdapterPlan:
    return plan_adapter(header(shapes, metadata), SHAPES, top_rank=16)


GOOD: dict[str, tuple[int, ...]] = {DOWN: (4, 8), UP: (8, 4)}


@pytest.mark.parametrize(
    ("down", "up"),
    [
        ("lora_A.weight", "lora_B.weight"),
        ("lora_down.weight", "lora_up.weight"),
        ("lora.down.weight", "lora.up.weight"),
    ],
)
def test_each_spelling_of_the_diffusers_dialect_is_read(down: str, up: str) -> None:
    prefix = f"transformer.{LAYER}."
    found = plan({prefix + down: (4, 8), prefix + up: (8, 4), prefix + "alpha": ()})
    layer = found.layers[0]
    assert (layer.layer, layer.down, layer.up, layer.rank) == (LAYER, prefix + down, prefix + up, 4)
    assert layer.alpha == prefix + "alpha"


BLOCK = "lora_unet_double_blocks_0_img_attn_proj"

# Names as public files of each dialect have them.
REFUSED: list[tuple[str, list[str], str]] = [
    ("kohya", [f"{BLOCK}.alpha", f"{BLOCK}.lora_down.weight", f"{BLOCK}.lora_up.weight"], "kohya"),
    ("ai-toolkit", ["diffusion_model.double_blocks.0.img_attn.proj.lora_A.weight"], "ai-toolkit / ComfyUI"),
    ("xlabs", ["double_blocks.0.processor.proj_lora1.down.weight"], "XLabs"),
    ("original names", ["double_blocks.0.img_attn.proj.lora_A.weight"], "original FLUX code"),
    ("onetrainer", ["lora_transformer_single_transformer_blocks_0_attn_to_k.lora_down.weight"], "OneTrainer"),
    (
        "onetrainer dora",
        [
            "lora_te1_text_model_encoder_layers_0_mlp_fc1.lora_down.weight",
            "lora_te1_text_model_encoder_layers_0_mlp_fc1.dora_scale",
        ],
        "DoRA",
    ),
    ("peft dora", [DOWN, UP, f"transformer.{LAYER}.lora_magnitude_vector"], "DoRA"),
    ("loha", [f"{BLOCK}.hada_w1_a", f"{BLOCK}.hada_w1_b"], "LoHa"),
    ("lokr", [f"{BLOCK}.lokr_w1", f"{BLOCK}.lokr_w2"], "LoKr"),
    ("lokr peft", [f"transformer.{LAYER}.lokr_w1"], "LoKr"),
    ("diff", [DOWN, UP, "transformer.norm_out.linear.diff"], "differences"),
    ("bias", [DOWN, UP, f"transformer.{LAYER}.lora_B.bias"], "biases"),
    (
        "control",
        [
            "double_blocks.0.img_attn.norm.key_norm.scale",
            "double_blocks.0.img_attn.proj.lora_A.weight",
            "double_blocks.0.img_attn.proj.lora_B.bias",
        ],
        "control adapter",
    ),
    ("norm", [DOWN, UP, "transformer.transformer_blocks.0.attn.norm_q.weight"], "norm weights"),
    ("clip", [DOWN, UP, "text_encoder.text_model.encoder.layers.0.mlp.fc1.lora_A.weight"], "text encoders"),
    ("kohya clip", [DOWN, UP, "lora_te1_text_model_encoder_layers_0_mlp_fc1.lora_down.weight"], "text-encoder"),
    ("peft", [f"base_model.model.{LAYER}.lora_A.weight"], "adapter_config.json"),
    ("bare", [f"{LAYER}.lora_A.weight"], "lack the prefix"),
    ("unet", ["unet.down_blocks.0.attentions.0.to_q.lora_A.weight"], "UNet"),
    ("unknown prefix", ["something.else.lora_A.weight"], "no dialect"),
    ("unknown ending", [DOWN, UP, f"transformer.{LAYER}.lora_A.default.weight"], "unknown meaning"),
    ("two spellings", [DOWN, UP, "transformer.x_embedder.lora_down.weight"], "mixes"),
    ("processor", [f"transformer.{LAYER}.processor.to_q_lora.down.weight"], "unknown meaning"),
]


@pytest.mark.parametrize(("keys", "words"), [(keys, words) for _, keys, words in REFUSED], ids=[r[0] for r in REFUSED])
def test_other_dialects_and_kinds_are_refused_by_name(keys: list[str], words: str) -> None:
    with pytest.raises(AdapterUnsupported, match=words) as caught:
        plan(dict.fromkeys(keys, (4, 8)))
    assert "transformer.<layer>.lora_A.weight" in caught.value.message


def test_a_refusal_names_the_first_keys_and_not_all() -> None:
    keys = [f"lora_unet_double_blocks_{i}_img_mod_lin.lora_down.weight" for i in range(700)]
    with pytest.raises(AdapterUnsupported, match="first of 700") as caught:
        plan(dict.fromkeys(keys, (4, 8)))
    assert keys[0] in caught.value.message
    assert len(caught.value.message) < 600


def test_no_tensors() -> None:
    with pytest.raises(AdapterUnsupported, match="no tensors"):
        plan({})


def test_a_widened_input_is_a_control_adapter() -> None:
    keys: dict[str, tuple[int, ...]] = {
        "transformer.x_embedder.lora_A.weight": (4, 8),
        "transformer.x_embedder.lora_B.weight": (8, 4),
    }
    with pytest.raises(AdapterUnsupported, match="widens x_embedder from 4 to 8"):
        plan(keys)


@pytest.mark.parametrize(
    ("shapes", "error", "words"),
    [
        ({DOWN: (4, 8)}, AdapterMismatch, "not its up half"),
        ({UP: (8, 4)}, AdapterMismatch, "not its down half"),
        ({**GOOD, "transformer.x_embedder.alpha": ()}, AdapterMismatch, "x_embedder"),
        ({DOWN: (4, 16), UP: (16, 4)}, AdapterMismatch, "16 inputs and 16 outputs.*8 inputs and 8 outputs"),
        ({DOWN: (4, 8), UP: (8, 5)}, AdapterMismatch, "A is 4 x 8 and B is 8 x 5"),
        ({DOWN: (0, 8), UP: (8, 0)}, AdapterMismatch, "expected rank x 8"),
        ({DOWN: (4, 8, 1, 1), UP: (8, 4, 1, 1)}, AdapterMismatch, "expected rank x 8"),
        ({**GOOD, f"transformer.{LAYER}.alpha": (2,)}, AdapterMismatch, "expected one number"),
        ({DOWN.replace("blocks.0", "blocks.19"): (4, 8)}, AdapterMismatch, "no such layers"),
        ({DOWN: (17, 8), UP: (8, 17)}, AdapterRankTooLarge, "rank 17.*16"),
    ],
)
def test_what_does_not_fit_is_refused(
    shapes: dict[str, tuple[int, ...]], error: type[AdapterError], words: str
) -> None:
    with pytest.raises(error, match=words):
        plan(shapes)


def test_quantised_weights_are_refused() -> None:
    with pytest.raises(AdapterUnsupported, match="stored as I8"):
        plan_adapter(header(GOOD, dtype="I8"), SHAPES, 16)


def metadata(**fields: object) -> dict[str, str]:
    config = {"r": 4, "lora_alpha": 8, **fields}
    return {"lora_adapter_metadata": json.dumps({f"transformer.{key}": value for key, value in config.items()})}


def strength(found: AdapterPlan, rank: int = 4) -> float:
    assert found.config is not None
    return found.config.strength_of(LAYER, rank)


def test_strength_from_metadata() -> None:
    assert strength(plan(GOOD, metadata())) == 2.0
    assert strength(plan(GOOD, metadata(use_rslora=True))) == 4.0
    assert strength(plan(GOOD, metadata(alpha_pattern={"to_q": 1}))) == 0.25
    assert strength(plan(GOOD, metadata(alpha_pattern={"o_q": 1}))) == 2.0
    assert strength(plan(GOOD, metadata(alpha_pattern={rf"^{LAYER}": 2}))) == 0.5
    assert strength(plan(GOOD, metadata(r=64, rank_pattern={LAYER: 4}))) == 2.0


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
        ({"r": "4"}, AdapterUnsupported),
        ({"lora_alpha": None}, AdapterUnsupported),
        ({"lora_alpha": float("nan")}, AdapterNotFinite),
        ({"alpha_pattern": {"(a+)+b": 1}}, AdapterUnsupported),
        ({"alpha_pattern": [1]}, AdapterUnreadable),
    ],
)
def test_metadata_that_means_something_else_is_refused(fields: dict[str, object], error: type[AdapterError]) -> None:
    with pytest.raises(error):
        plan(GOOD, metadata(**fields))


def test_metadata_of_another_rank_is_refused() -> None:
    with pytest.raises(AdapterMismatch, match=r"rank 8.*rank 4"):
        strength(plan(GOOD, metadata(r=8)))


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 100_000])
def test_metadata_that_cannot_be_read(text: str) -> None:
    with pytest.raises(AdapterUnreadable):
        plan(GOOD, {"lora_adapter_metadata": text})


def test_unprefixed_metadata_is_refused() -> None:
    with pytest.raises(AdapterUnsupported, match="without the prefix"):
        plan(GOOD, {"lora_adapter_metadata": json.dumps({"r": 4, "lora_alpha": 8})})
