"""Reference pictures: each job on a fresh plain pipeline with diffusers' own adapter loader, and no slot.

    python -m worker.reference --base-model tiny-flux --job JOB.json --out FILE.png

``JOB.json`` holds one job or a list of jobs: {prompt, width, height, steps, guidance_scale, seed, negative_prompt?,
adapters: [{path or sha256, scale}]} (a hash means an adapter that comes with the base model), and optionally ``image``:
a picture (.png or .npy) to compare with. ``FILE`` may end in .png or .npy; for a list the number of the job is put
before the ending. Prints JSON, one object for one job and a list for a list: {out, sha256 (of the raw pixels, height x
width x 3), max_difference (0..255, null where nothing is compared)}.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from shared.adapter_files import sha256_of
from shared.catalogue import BaseModelEntry, read_catalogue
from shared.errors import HotslotError, UnknownAdapter
from shared.settings import settings
from worker.assemble import planned
from worker.builtin import builtin_adapters
from worker.families.table import TORCH_FAMILIES
from worker.libraries import LoraLayer, hushed
from worker.load import load_pipeline, set_threads

Pixels = npt.NDArray[np.uint8]
Job = dict[str, Any]


def draw_reference(entry: BaseModelEntry, job: Job) -> Pixels:
    """The picture of this job, height x width x 3, from a pipeline that has loaded nothing else before."""
    entry = planned(entry).settled(entry)
    pipeline, _ = load_pipeline(entry)
    adapters = job.get("adapters", [])
    with hushed():
        for number, adapter in enumerate(adapters):
            path = _file_of(adapter, entry)
            pipeline.load_lora_weights(str(path.parent), weight_name=path.name, adapter_name=f"reference_{number}")
        if adapters:
            names = [f"reference_{number}" for number in range(len(adapters))]
            pipeline.set_adapters(names, [float(adapter.get("scale", 1.0)) for adapter in adapters])
            _realign(pipeline)
        image = pipeline(
            prompt=job["prompt"],
            width=job["width"],
            height=job["height"],
            num_inference_steps=job["steps"],
            guidance_scale=job["guidance_scale"],
            generator=torch.Generator("cpu").manual_seed(job["seed"]),
            **TORCH_FAMILIES[entry.family].options(job.get("negative_prompt"), entry.sampling),
        ).images[0]
    return np.asarray(image.convert("RGB"))


def _file_of(adapter: dict[str, Any], entry: BaseModelEntry) -> Path:
    if "path" in adapter:
        return Path(adapter["path"])
    builtin = {sha256_of(path): path for path in builtin_adapters(entry).values()}
    if adapter["sha256"] not in builtin:
        raise UnknownAdapter(f"no adapter that comes with {entry.name} has the hash {adapter['sha256']}.")
    return builtin[adapter["sha256"]]


def _realign(pipeline: Any) -> None:
    # The loader leaves weights where the file's layout puts them, often 8 bytes off a cache line, and MKL's
    # matrix-times-vector sums in another order there. In torch's own memory the same values give one answer for any
    # file.
    models = [model for model in pipeline.components.values() if isinstance(model, torch.nn.Module)]
    for layer in (layer for model in models for layer in model.modules()):
        if isinstance(layer, LoraLayer):
            for half in (*layer.lora_A.values(), *layer.lora_B.values()):
                half.weight.data = half.weight.data.clone()


def report(pixels: Pixels, out: Path, compared: Path | None) -> dict[str, object]:
    """Write the picture, and say what it is and how far the other one is from it."""
    save(pixels, out)
    return {
        "out": str(out),
        "sha256": hashlib.sha256(pixels.tobytes()).hexdigest(),
        "max_difference": None if compared is None else max_difference(pixels, read(compared)),
    }


def max_difference(one: Pixels, other: Pixels) -> int:
    """Largest difference of any value, 0 to 255; 255 where the sizes differ."""
    if one.shape != other.shape:
        return 255
    return int(np.abs(one.astype(np.int16) - other.astype(np.int16)).max())


def save(pixels: Pixels, out: Path) -> None:
    """Write a .npy or a picture file."""
    if out.suffix == ".npy":
        np.save(out, pixels)
    else:
        Image.fromarray(pixels).save(out)


def read(path: Path) -> Pixels:
    """Read a .npy or a picture file."""
    if path.suffix == ".npy":
        loaded: Pixels = np.load(path, allow_pickle=False)
        return loaded
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; exit status 1 with one sentence if a job cannot be drawn."""
    parser = argparse.ArgumentParser(prog="python -m worker.reference", description=__doc__.partition("\n")[0])
    parser.add_argument("--base-model", required=True)
    parser.add_argument("--job", type=Path, required=True, help="JSON: one job or a list of jobs")
    parser.add_argument("--out", type=Path, required=True, help=".png or .npy")
    parser.add_argument("--threads", type=int, help="CPU threads of torch (default: as the worker chooses)")
    options = parser.parse_args(arguments)
    try:
        entry = read_catalogue(settings().catalogue).get(options.base_model)
        set_threads(entry, options.threads)
        content = json.loads(options.job.read_text(encoding="utf-8"))
        jobs = content if isinstance(content, list) else [content]
        reports = []
        for number, job in enumerate(jobs):
            out = options.out
            if isinstance(content, list):
                out = out.with_name(f"{out.stem}-{number}{out.suffix}")
            compared = Path(job["image"]) if job.get("image") else None
            reports.append(report(draw_reference(entry, job), out, compared))
    except (HotslotError, OSError, ValueError, KeyError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    sys.stdout.write(json.dumps(reports if isinstance(content, list) else reports[0]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
