"""Adapters and jobs on the small pipelines: which layers, ranks and alphas, and what a fresh process makes of each."""

from __future__ import annotations

import json
import os
import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from shared.adapter_layers import LayerShape
from shared.families.clip import name_in_files
from shared.families.family import component_of
from tests.worker.adapter_files import adapter
from tests.worker.cases import Fresh, apply
from worker.engine import DiffusersEngine
from worker.engine_types import AdapterFile, Drawing
from worker.reference import Pixels

DRAWING = Drawing("a red fox in the snow", None, 64, 48, 2, 3.5, 7)
GAIN = 4.0


@dataclass(frozen=True)
class Kind:
    """One adapter: layers whose name holds ``targets``, their rank, and alpha (None: as high as the rank).

    One with an alpha changes the denoiser alone.
    """

    targets: str
    rank: int
    alpha: float | None = None


KINDS = {
    "small": Kind(r"(transformer|unet)\..*to_[qkv]$", 4, 2.0),
    "other": Kind(r"(transformer|unet)\..*(to_out\.0|ff\.net\.2|proj_mlp)$", 4),
    "large": Kind(r".", 16),
    "convolutions": Kind(
        r"^(transformer|unet)\.(.*\.)?(conv\d?|conv_in|conv_out|conv_shortcut|proj_in|proj_out)$", 6, 3.0
    ),
    "text": Kind(r"^text_encoder", 8),
}

Parts = list[tuple[str, float]]

CASES: dict[str, Parts] = {
    "none": [],
    "small": [("small", 1.0)],
    "small weak": [("small", 0.3)],
    "other": [("other", 1.0)],
    "large": [("large", 0.5)],
    "convolutions": [("convolutions", 1.0)],
    "text": [("text", 1.0)],
    "four": [("small", 0.7), ("other", 1.0), ("text", 0.5), ("convolutions", -1.0)],
}

EXACT = ("none", "small", "other", "large", "convolutions", "text")
"""At most one adapter, whose strength times alpha / rank is a power of two in every layer."""


def files_for(engine: DiffusersEngine, folder: Path) -> dict[str, Path]:
    """The adapters' files for this engine's base model."""
    layers = engine.layers
    return {name: _write(kind, layers, seed, folder / f"{name}.safetensors") for seed, (name, kind) in _seeded()}


def _seeded() -> list[tuple[int, tuple[str, Kind]]]:
    return list(enumerate(KINDS.items()))


def _write(kind: Kind, layers: Mapping[str, LayerShape], seed: int, path: Path) -> Path:
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for layer, shape in layers.items():
        if not re.search(kind.targets, layer):
            continue
        component = component_of(layer)
        own = layer.removeprefix(f"{component}.")
        name = f"{component}.{name_in_files(own) if component.startswith('text') else own}"
        kernel, point = shape.kernel or (), (1, 1) if shape.kernel else ()
        fan = shape.inputs * int(np.prod(kernel))
        down = torch.randn(kind.rank, shape.inputs, *kernel, generator=generator) / fan**0.5
        up = torch.randn(shape.outputs, kind.rank, *point, generator=generator) * GAIN / kind.rank**0.5
        tensors[f"{name}.lora_A.weight"] = down
        tensors[f"{name}.lora_B.weight"] = up
    save_file(tensors, path, metadata=_metadata(kind, [name for name in layers if re.search(kind.targets, name)]))
    return path


def _metadata(kind: Kind, layers: list[str]) -> dict[str, str]:
    """Alpha as diffusers writes it; beside the weights of these families its own loader takes none."""
    if kind.alpha is None:
        return {"format": "pt"}
    config = {
        "r": kind.rank,
        "lora_alpha": kind.alpha,
        "rank_pattern": {},
        "alpha_pattern": {},
        "target_modules": [layer.partition(".")[2] for layer in layers],
        "use_rslora": False,
        "use_dora": False,
        "lora_bias": False,
    }
    (component,) = set(map(component_of, layers))
    return {"lora_adapter_metadata": json.dumps({f"{component}.{key}": value for key, value in config.items()})}


def files_of(case: str, files: Mapping[str, Path]) -> list[AdapterFile]:
    return [adapter(files[name], scale) for name, scale in CASES[case]]


def shown(engine: DiffusersEngine, drawing: Drawing = DRAWING) -> Pixels:
    return engine.draw(drawing, lambda done, steps: None).pixels


def by_fresh_processes(engine: DiffusersEngine, files: Mapping[str, Path], folder: Path) -> dict[str, Fresh]:
    """Every case, each in a fork of an engine that has drawn nothing yet but its warm-up."""
    return {case: _forked(engine, files_of(case, files), folder / case.replace(" ", "-")) for case in CASES}


def _forked(engine: DiffusersEngine, files: list[AdapterFile], out: Path) -> Fresh:
    child = os.fork()
    if child == 0:
        try:
            report = apply(engine, files)
            np.save(out.with_suffix(".npy"), shown(engine))
            out.with_suffix(".txt").write_text(report.fingerprint)
        except BaseException:
            out.with_suffix(".txt").write_text(traceback.format_exc())
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status == 0, out.with_suffix(".txt").read_text()
    return Fresh(np.load(out.with_suffix(".npy")), out.with_suffix(".txt").read_text())
