"""Adapters as files, in the dialects that trainers write; the same bytes for the same tensors, always."""

from __future__ import annotations

import json
import re
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from worker.playground.adapters import Adapter

BASE_MODEL = "hotslot/tiny-flux"

_KOHYA = {
    "attn.to_out.0": "img_attn_proj",
    "attn.to_add_out": "txt_attn_proj",
    "ff.net.0.proj": "img_mlp_0",
    "ff.net.2": "img_mlp_2",
    "norm1.linear": "img_mod_lin",
    "proj_out": "linear2",
    "norm.linear": "modulation_lin",
}
"""Layers that diffusers and the original FLUX code (which kohya's names come from) cut alike."""

_LAYER = re.compile(r"(single_)?transformer_blocks\.(\d+)\.(.+)")


def write_adapter(path: Path, name: str, adapter: Adapter, tensors: dict[str, Tensor]) -> None:
    """Write ``<layer>.lora_A.weight`` and ``.lora_B.weight`` in the adapter's own dialect, in half precision."""
    halves = {key: tensor.to(torch.float16) for key, tensor in tensors.items()}
    renamed, metadata = _DIALECTS[adapter.dialect](adapter, halves)
    metadata |= {"base_model": BASE_MODEL, "name": name}
    if adapter.trigger:
        metadata["trigger_words"] = adapter.trigger
    path.write_bytes(packed(renamed, metadata))


def packed(tensors: dict[str, Tensor], metadata: dict[str, str]) -> bytes:
    """A safetensors file with sorted metadata: the library writes it in random order, and the hash is the identity."""
    plain = save({key: tensor.contiguous() for key, tensor in tensors.items()})
    length = int.from_bytes(plain[:8], "little")
    header = json.loads(plain[8 : 8 + length])
    text = json.dumps({"__metadata__": dict(sorted(metadata.items())), **header}, separators=(",", ":"))
    # Padded with spaces, so that the weights start at a multiple of eight (the format's own rule).
    padded = text.encode() + b" " * (-len(text.encode()) % 8)
    return len(padded).to_bytes(8, "little") + padded + plain[8 + length :]


def _diffusers(adapter: Adapter, tensors: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    renamed = {f"transformer.{key}": tensor for key, tensor in tensors.items()}
    for layer in _layers(tensors):
        renamed[f"transformer.{layer}.alpha"] = torch.tensor(float(adapter.written_alpha))
    return renamed, {"format": "pt"}


def _peft(adapter: Adapter, tensors: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    layers = _layers(tensors)
    ranks = {layer: int(tensors[f"{layer}.lora_A.weight"].shape[0]) for layer in layers}
    config = {
        "peft_type": "LORA",
        "r": adapter.rank,
        "lora_alpha": adapter.written_alpha,
        "rank_pattern": {layer: rank for layer, rank in ranks.items() if rank != adapter.rank},
        "alpha_pattern": {},
        "target_modules": layers,
        "use_rslora": False,
        "use_dora": False,
        "lora_bias": False,
    }
    packed_config = {f"transformer.{key}": value for key, value in config.items()}
    renamed = {f"transformer.{key}": tensor for key, tensor in tensors.items()}
    return renamed, {"format": "pt", "lora_adapter_metadata": json.dumps(packed_config, sort_keys=True)}


def _kohya(adapter: Adapter, tensors: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    renamed = {}
    for layer in _layers(tensors):
        name = _kohya_name(layer)
        renamed[f"{name}.lora_down.weight"] = tensors[f"{layer}.lora_A.weight"]
        renamed[f"{name}.lora_up.weight"] = tensors[f"{layer}.lora_B.weight"]
        renamed[f"{name}.alpha"] = torch.tensor(float(adapter.written_alpha))
    described = {
        "ss_base_model_version": "flux1",
        "ss_network_module": "networks.lora_flux",
        "ss_network_dim": str(adapter.rank),
        "ss_network_alpha": str(adapter.written_alpha),
    }
    return renamed, described


def _kohya_name(layer: str) -> str:
    found = _LAYER.fullmatch(layer)
    if found is None or found[3] not in _KOHYA:
        raise ValueError(f"{layer} has no counterpart in the original FLUX code")
    return f"lora_unet_{'single' if found[1] else 'double'}_blocks_{found[2]}_{_KOHYA[found[3]]}"


def _layers(tensors: dict[str, Tensor]) -> list[str]:
    return sorted({key.partition(".lora_")[0] for key in tensors})


_DIALECTS = {"diffusers": _diffusers, "peft": _peft, "kohya": _kohya}
