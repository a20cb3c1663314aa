"""Adapter files as strangers might make them: right ones in every dialect, and what goes wrong with them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from shared.adapters.header import DTYPE_BITS
from shared.adapters.kinds import KINDS
from tests.adapter_bytes import WIDTH, packed

Tensors = dict[str, tuple[str, tuple[int, ...]]]


def _pair(name: str, endings: tuple[str, str], outputs: int = WIDTH, *, alpha: bool = False) -> Tensors:
    found: Tensors = {f"{name}.{endings[0]}": ("F32", (4, WIDTH)), f"{name}.{endings[1]}": ("F32", (outputs, 4))}
    return found | ({f"{name}.alpha": ("F32", ())} if alpha else {})


_AB, _KOHYA, _OLD = (
    ("lora_A.weight", "lora_B.weight"),
    ("lora_down.weight", "lora_up.weight"),
    ("down.weight", "up.weight"),
)
_CONFIG = {"r": 4, "lora_alpha": 2, "rank_pattern": {}, "alpha_pattern": {"to_q": 8}, "use_rslora": False}

RIGHT: list[tuple[Tensors, dict[str, str]]] = [
    (
        _pair("transformer.transformer_blocks.0.attn.to_q", _AB) | _pair("transformer.proj_out", _AB, 32),
        {"format": "pt"},
    ),
    (
        _pair("transformer.single_transformer_blocks.1.attn.to_q", _AB),
        {"lora_adapter_metadata": json.dumps({f"transformer.{key}": value for key, value in _CONFIG.items()})},
    ),
    (
        _pair("lora_unet_double_blocks_1_img_attn_qkv", _KOHYA, 3 * WIDTH, alpha=True),
        {"ss_base_model_version": "flux1"},
    ),
    (_pair("diffusion_model.single_blocks.3.linear1", _AB, 7 * WIDTH), {}),
    (
        _pair("double_blocks.0.processor.qkv_lora2", _OLD, 3 * WIDTH)
        | _pair("double_blocks.0.processor.proj_lora1", _OLD),
        {},
    ),
    (_pair("lora_transformer_transformer_blocks_1_attn_to_out_0", _KOHYA, alpha=True), {}),
    (_pair("base_model.model.transformer_blocks.0.attn.to_k", _AB, alpha=True), {}),
    (_pair("lora_unet_final_layer_adaLN_modulation_1", _KOHYA, 2 * WIDTH), {}),
    (_pair("unet.down_blocks.0.attentions.0.proj_in", _AB), {}),
    (_pair("text_encoder.text_model.encoder.layers.0.mlp.fc1", _AB), {}),
]
"""Most fit tiny-flux. A file has alphas among its weights or in its metadata, never both, so that none contradict."""

_sizes = st.sampled_from([0, 1, 2, 4, 5, 16, 17, WIDTH, 2 * WIDTH, 3 * WIDTH])
_names = st.text(min_size=1, max_size=12) | st.sampled_from(
    ["alpha", ".alpha", "lora_A.weight", "__metadata__", "\ud800"]
)


def _renamed(draw: DrawFn, tensors: Tensors) -> None:
    key = draw(st.sampled_from(sorted(tensors)))
    place = draw(st.integers(0, len(key)))
    cut = draw(st.integers(0, 8))
    tensors[key[:place] + draw(_names | st.just("")) + key[place + cut :]] = tensors.pop(key)


def _dropped(draw: DrawFn, tensors: Tensors) -> None:
    del tensors[draw(st.sampled_from(sorted(tensors)))]


def _reshaped(draw: DrawFn, tensors: Tensors) -> None:
    key = draw(st.sampled_from(sorted(tensors)))
    dtype, shape = tensors[key]
    one = list(shape)
    if one and draw(st.booleans()):
        one[draw(st.integers(0, len(one) - 1))] = draw(_sizes)
    else:
        one = draw(st.lists(_sizes, max_size=5).filter(lambda sizes: _product(sizes) < 1 << 16))
    tensors[key] = (dtype, tuple(one))


def _product(sizes: list[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product


def _retyped(draw: DrawFn, tensors: Tensors) -> None:
    key = draw(st.sampled_from(sorted(tensors)))
    tensors[key] = (draw(st.sampled_from(sorted(DTYPE_BITS))), tensors[key][1])


def _joined(draw: DrawFn, tensors: Tensors) -> None:
    tensors.update(
        draw(st.sampled_from([other for other, metadata in RIGHT if "lora_adapter_metadata" not in metadata]))
    )


def _foreign(draw: DrawFn, tensors: Tensors) -> None:
    key = draw(st.sampled_from([kind.example for kind in KINDS]) | _names)
    tensors[key] = ("F32", draw(st.sampled_from([(), (4,), (4, WIDTH)])))


_MUTATIONS: list[Callable[[DrawFn, Tensors], None]] = [_renamed, _dropped, _reshaped, _retyped, _joined, _foreign]

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def _metadata(draw: DrawFn, metadata: dict[str, str]) -> dict[str, str]:
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return metadata | {draw(_names): draw(st.text(max_size=20))}
    if kind == 1 and "lora_adapter_metadata" in metadata:
        fields = json.loads(metadata["lora_adapter_metadata"])
        name = draw(st.sampled_from(sorted(fields)) | st.text(max_size=10).map("transformer.{}".format))
        return {"lora_adapter_metadata": json.dumps(fields | {name: draw(_json)})}
    return metadata


@st.composite
def adapter_files(draw: DrawFn) -> bytes:
    """A well-formed file, right or with up to three things wrong."""
    tensors, metadata = draw(st.sampled_from(RIGHT))
    changed = dict(tensors)
    for mutate in draw(st.lists(st.sampled_from(_MUTATIONS), max_size=3)):
        if changed:
            mutate(draw, changed)
    changed.pop("__metadata__", None)
    return packed(changed, _metadata(draw, metadata))


@st.composite
def damaged_files(draw: DrawFn) -> bytes:
    """Any bytes: a file cut, lengthened, with other bytes in it, or with another JSON as its header."""
    content = draw(adapter_files())
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return content[: draw(st.integers(0, len(content)))]
    if kind == 1:
        return content + draw(st.binary(min_size=1, max_size=40))
    if kind == 2:
        return struct.pack("<Q", draw(st.integers(0, 2**64 - 1))) + content[8:]
    if kind == 3:
        raw = json.dumps(draw(_json)).encode()
        return struct.pack("<Q", len(raw)) + raw + draw(st.binary(max_size=16))
    if kind == 4:
        return draw(st.binary(max_size=200))
    place = draw(st.integers(0, min(len(content), 600)))
    return content[:place] + draw(st.binary(min_size=1, max_size=8)) + content[place + draw(st.integers(0, 8)) :]
