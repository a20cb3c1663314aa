"""Loading a base model: from a diffusers folder, or built in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from shared.catalogue import BaseModelEntry
from shared.errors import Misconfigured
from worker.families.table import TORCH_FAMILIES
from worker.tiny_flux import SOURCE as TINY_FLUX
from worker.tiny_flux import tiny_flux

BUILTIN = "builtin:"

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def slot_dtype(entry: BaseModelEntry) -> torch.dtype:
    """The dtype of the base model's weights, which the slot shares."""
    return _DTYPES[entry.dtype]


def set_threads(entry: BaseModelEntry, threads: int | None = None) -> None:
    """Fix torch's CPU threads: as many as asked for, else one for tiny-flux, else torch's own choice (one per core).

    The products of tiny-flux are so small that a second thread costs more than it gives, tenfold on a busy machine;
    and with one thread the same bits come out whatever the machine's number of cores.
    """
    if threads is None and entry.source == TINY_FLUX:
        threads = 1
    if threads is not None:
        torch.set_num_threads(threads)


def load_pipeline(entry: BaseModelEntry) -> tuple[Any, str]:
    """The plain pipeline on its device, and the revision of what was loaded; see ``read_pipeline``."""
    pipeline, revision = read_pipeline(entry)
    return pipeline.to(entry.device), revision


def read_pipeline(entry: BaseModelEntry) -> tuple[Any, str]:
    """The plain pipeline in the CPU's memory, without adapters, and the revision of what was loaded.

    Never reaches for the network. Raises ``Misconfigured`` if the source is not there or is not one of its family,
    ``WeightsAltered`` if a built-in file is not the one that was released.
    """
    folder, revision = _locate(entry)
    family = TORCH_FAMILIES[entry.family]
    try:
        pipeline = family.pipeline.from_pretrained(
            folder, dtype=slot_dtype(entry), local_files_only=True, **family.load_options
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Misconfigured(f"The base model {entry.name} cannot be loaded from {folder}: {error}") from error
    pipeline.set_progress_bar_config(disable=True)
    for model in pipeline.components.values():
        if isinstance(model, nn.Module):
            model.eval()
            model.requires_grad_(False)
    return pipeline, revision


def _locate(entry: BaseModelEntry) -> tuple[Path, str]:
    if entry.source == TINY_FLUX:
        found = tiny_flux()
        return found.pipeline_folder, found.version
    if entry.source.startswith(BUILTIN):
        raise Misconfigured(f"{entry.source} is not built in; there is {TINY_FLUX}.")
    folder = Path(entry.source)
    if not (folder / "model_index.json").is_file():
        raise Misconfigured(f"The base model {entry.name} has no diffusers folder at {folder} (no model_index.json).")
    return folder, entry.revision
