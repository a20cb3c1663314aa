"""From an adapter file to its compact form: read, proven by its hash, checked, strengths folded in."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import torch

from shared.adapters.base import BaseLayers
from shared.adapters.header import Header, read_header, shown
from shared.adapters.plan import AdapterPlan, LayerPlan, Strength, plan_adapter
from shared.adapters.source import opened_file, ranges_of, size_of
from shared.errors import AdapterChanged, AdapterError, AdapterNotFinite, AdapterUnsupported
from worker.compact import CompactAdapter, CompactLayer

_CHUNK_BYTES = 1 << 20
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
}


def read_adapter(path: Path, sha256: str, base: BaseLayers, dtype: torch.dtype) -> CompactAdapter:
    """The file at ``path`` in compact form, for a base model of these layers.

    Raises ``AdapterChanged`` if its bytes are not those of ``sha256``, another ``AdapterError`` if it is refused. The
    weights are read only once the header has shown that they fit, so memory is bounded by the slot's size.
    """
    with opened_file(path) as file:
        size_bytes = size_of(file)
        try:
            plan_adapter(read_header(ranges_of(file), size_bytes), base)
        except AdapterError:
            # Whatever is wrong with other bytes than those of the job, that they are others comes first.
            _check_hash(_hash_of(file), sha256)
            raise
        file.seek(0)
        blob = file.read(size_bytes)
    _check_hash(hashlib.sha256(blob).hexdigest(), sha256)
    # From the very bytes that were hashed: the file may have been replaced in between.
    header = read_header(lambda offset, length: blob[offset : offset + length], len(blob))
    return convert(plan_adapter(header, base), tensors_of(header, blob), sha256, dtype)


def tensors_of(header: Header, blob: bytes) -> dict[str, torch.Tensor]:
    """The file's tensors, with the values that its bytes say; ``header`` is that of these bytes."""
    weights = len(blob) - max((entry.end for entry in header.tensors.values()), default=0)
    found = {}
    for name, entry in header.tensors.items():
        if entry.dtype in _DTYPES:
            # A piece of its own, because the weights may lie at any byte of the file.
            piece = bytearray(blob[weights + entry.begin : weights + entry.end])
            flat = torch.frombuffer(piece, dtype=torch.uint8) if piece else torch.empty(0, dtype=torch.uint8)
            found[name] = flat.view(_DTYPES[entry.dtype]).reshape(entry.shape)
    return found


def convert(plan: AdapterPlan, tensors: Mapping[str, torch.Tensor], sha256: str, dtype: torch.dtype) -> CompactAdapter:
    """The planned layers with alpha / rank folded into B, in float32 before the cast to ``dtype``.

    Raises ``AdapterNotFinite`` if a weight is not finite in ``dtype``, ``AdapterUnsupported`` if the alphas of the
    weights and of the metadata contradict each other.
    """
    # Layers that the file has fused share their A.
    downs: dict[str, torch.Tensor] = {}
    layers = {}
    for layer in plan.layers:
        if layer.down not in downs:
            downs[layer.down] = _finite(_down(layer, tensors[layer.down]).to(dtype).contiguous(), layer.down)
        up = _up(layer, tensors[layer.up]) * _strength(layer, tensors)
        layers[layer.layer] = CompactLayer(downs[layer.down], _finite(up.to(dtype).contiguous(), layer.up))
    return CompactAdapter(sha256, layers)


def _down(layer: LayerPlan, tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float32).reshape(layer.rank, layer.shape.inputs, *(layer.shape.kernel or ()))


def _up(layer: LayerPlan, tensor: torch.Tensor) -> torch.Tensor:
    rows = tensor.to(torch.float32)
    if layer.rows is not None:
        rows = torch.cat([rows[begin:end] for begin, end in layer.rows])
    points = () if layer.shape.kernel is None else (1, 1)
    return rows.reshape(layer.shape.outputs, layer.rank, *points)


def _finite(half: torch.Tensor, key: str) -> torch.Tensor:
    if not torch.isfinite(half).all():
        dtype = str(half.dtype).removeprefix("torch.")
        raise AdapterNotFinite(f"{shown(key)} holds values that are not finite in {dtype}.")
    return half


def _strength(layer: LayerPlan, tensors: Mapping[str, torch.Tensor]) -> float:
    strength = layer.strength
    alpha = _alpha(strength, tensors)
    if alpha is None:
        return 1.0
    if strength.alpha is not None and alpha != strength.alpha:
        raise AdapterUnsupported(
            f"{layer.layer} has alpha {alpha} among its weights but {strength.alpha} in the metadata, so its strength "
            "is not clear.",
            reason="ambiguous",
        )
    return alpha / strength.divisor


def _alpha(strength: Strength, tensors: Mapping[str, torch.Tensor]) -> float | None:
    if strength.key is None:
        return strength.alpha
    alpha = float(tensors[strength.key].item())
    if not torch.isfinite(torch.tensor(alpha)):
        raise AdapterNotFinite(f"{shown(strength.key)} is {alpha}.")
    return alpha


def _hash_of(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    file.seek(0)
    while piece := file.read(_CHUNK_BYTES):
        digest.update(piece)
    return digest.hexdigest()


def _check_hash(found: str, expected: str) -> None:
    if found != expected:
        raise AdapterChanged("the file's bytes are not those that the job was admitted with; submit the job again.")
