"""From an adapter file to its compact form: read, proven by its hash, checked, strengths folded in."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import safetensors
import safetensors.torch
import torch

from shared.errors import AdapterChanged, AdapterError, AdapterNotFinite, AdapterUnreadable, AdapterUnsupported
from worker.compact import CompactAdapter, CompactLayer
from worker.dialect import AdapterPlan, LayerPlan, LayerShape, plan_adapter
from worker.header import read_header

_CHUNK_BYTES = 1 << 20


def read_adapter(
    path: Path, sha256: str, shapes: Mapping[str, LayerShape], top_rank: int, dtype: torch.dtype
) -> CompactAdapter:
    """The file at ``path`` in compact form, for a base model of these layers.

    Raises ``AdapterChanged`` if its bytes are not those of ``sha256``, another ``AdapterError`` if it is refused. The
    weights are read only once the header has shown that they fit, so memory is bounded by the slot's size.
    """
    with _opened(path) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        try:
            plan_adapter(read_header(file, size_bytes), shapes, top_rank)
        except AdapterError:
            # Whatever is wrong with other bytes than those of the job, that they are others comes first.
            _check_hash(_hash_of(file), sha256)
            raise
        file.seek(0)
        blob = file.read(size_bytes)
    _check_hash(hashlib.sha256(blob).hexdigest(), sha256)
    # From the very bytes that were hashed: the file may have been replaced in between.
    plan = plan_adapter(read_header(BytesIO(blob), len(blob)), shapes, top_rank)
    try:
        tensors = safetensors.torch.load(blob)
    except safetensors.SafetensorError as error:
        raise AdapterUnreadable(f"not a safetensors file: {error}.") from error
    return convert(plan, tensors, sha256, dtype)


def convert(plan: AdapterPlan, tensors: Mapping[str, torch.Tensor], sha256: str, dtype: torch.dtype) -> CompactAdapter:
    """The planned layers with alpha / rank folded into B, in float32 before the cast to ``dtype``."""
    layers = {}
    for layer in plan.layers:
        strength = _strength(plan, layer, tensors)
        down = tensors[layer.down].to(torch.float32)
        up = tensors[layer.up].to(torch.float32) * strength
        compact = CompactLayer(down.to(dtype).contiguous(), up.to(dtype).contiguous())
        for key, half in ((layer.down, compact.down), (layer.up, compact.up)):
            if not torch.isfinite(half).all():
                raise AdapterNotFinite(
                    f"{key} holds values that are not finite in {str(dtype).removeprefix('torch.')}."
                )
        layers[layer.layer] = compact
    return CompactAdapter(sha256, layers)


def _strength(plan: AdapterPlan, layer: LayerPlan, tensors: Mapping[str, torch.Tensor]) -> float:
    alpha = None if layer.alpha is None else float(tensors[layer.alpha].item())
    if alpha is not None and not torch.isfinite(torch.tensor(alpha)):
        raise AdapterNotFinite(f"{layer.alpha} is {alpha}.")
    if plan.config is None:
        return 1.0 if alpha is None else alpha / layer.rank
    if alpha is not None and alpha != plan.config.alpha_of(layer.layer):
        raise AdapterUnsupported(
            f"{layer.layer} has alpha {alpha} among its weights but {plan.config.alpha_of(layer.layer)} in the "
            "metadata, so its strength is not clear."
        )
    return plan.config.strength_of(layer.layer, layer.rank)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        # Not blocking: a named pipe in the folder would otherwise hold the worker for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise AdapterUnreadable(f"the file cannot be opened: {error.strerror}.") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise AdapterUnreadable("it is not a file.")
    with os.fdopen(descriptor, "rb") as file:
        yield file


def _hash_of(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    file.seek(0)
    while piece := file.read(_CHUNK_BYTES):
        digest.update(piece)
    return digest.hexdigest()


def _check_hash(found: str, expected: str) -> None:
    if found != expected:
        raise AdapterChanged("the file's bytes are not those that the job was admitted with; submit the job again.")
