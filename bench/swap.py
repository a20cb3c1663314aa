"""What a change of adapter costs: ours from memory, the bare copies, and what diffusers does, side by side in one run.

    python -m bench.swap

A transformer of FLUX's width with 2 + 4 blocks in bfloat16 on the CPU, in a worker of the tiers 16, 64 and 128; two
adapters take turns, at another strength each time. Times are medians, in milliseconds. Prints one JSON object last:
``ratio_to_foreach_copy`` compares our copy with one of just the adapter's bytes, ``ratio_to_flat_copy`` the whole swap
with one flat copy of all bytes that it answers for: the adapter's and the zeros around them that the tier multiplies
with (``ratio_to_flat_copy_of_payload``: the adapter's alone).
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import torch

from bench.flux_blocks import ALL_LINEAR, ATTENTION, compact_of, flux_blocks, pipeline_of, random_adapter
from shared.families.family import Layers
from shared.families.flux import transformer_layers
from worker.layout import Layouts
from worker.libraries import FluxPipeline, FluxTransformer2DModel, hushed
from worker.packed import Packed, pack
from worker.slot import Slot

TIERS = (16, 64, 128)
TIMES = 9
SLOW_TIMES = 9
SCALES = (0.8, 0.6)
Tensors = dict[str, torch.Tensor]
CASES = {"attention rank 16": (ATTENTION, 16), "all-linear rank 64": (ALL_LINEAR, 64)}
TOKENS = 8
FORWARDS = 3


def measured(act: Callable[[int], object], times: int = TIMES) -> float:
    """Median time of ``act(number)``, ms; the first two are not counted."""
    spent = []
    for number in range(times + 2):
        started_s = time.perf_counter()
        act(number)
        spent.append((time.perf_counter() - started_s) * 1000)
    return statistics.median(spent[2:])


def ours(slot: Slot, adapters: list[Packed]) -> dict[str, float]:
    """Each part by itself, and the whole."""
    storage = slot.storage
    arrangement = storage.arrange(adapters[0].ranks)
    # What it must add up to is computed once for each strength, as it is in a worker.
    for adapter, scale in zip(adapters, SCALES, strict=True):
        adapter.expected(scale)

    def sum_anew(_: int) -> None:
        adapters[0]._expected.clear()
        adapters[0].expected(0.5)

    parts = {
        "copy": measured(lambda number: storage.copy(arrangement, adapters[number % 2], 1.0)),
        "copy with strength": measured(lambda number: storage.copy(arrangement, adapters[number % 2], 1.01)),
        "checksum": measured(lambda number: storage.sums(arrangement)),
        "whole": measured(lambda number: slot.fill((), adapters[number % 2], SCALES[number % 2])),
        "expected checksum of a new strength": measured(sum_anew, times=3),
    }
    parts["strength"] = parts["copy with strength"] - parts["copy"]
    return {f"ours: {name}": spent for name, spent in parts.items()}


def copies(adapters: list[Packed], padded_bytes: int) -> dict[str, float]:
    """The floor: the same bytes, copied tensor by tensor and in one piece."""
    sources = [[half for pair in adapter.views.values() for half in pair] for adapter in adapters]
    there = [torch.empty_like(half) for half in sources[0]]
    payload = [torch.cat([half.flatten() for half in halves]) for halves in sources]
    flat, padded = torch.empty_like(payload[0]), torch.empty(padded_bytes // 2, dtype=torch.bfloat16)
    from_padded = torch.zeros_like(padded)
    return {
        "foreach_copy": measured(lambda number: torch._foreach_copy_(there, sources[number % 2])),
        "flat copy": measured(lambda number: flat.copy_(payload[number % 2])),
        "flat copy, padded": measured(lambda number: padded.copy_(from_padded)),
    }


def theirs(pipeline: FluxPipeline, files: list[Tensors], rank: int) -> dict[str, float]:
    """diffusers' own ways, from state dicts in memory."""
    found = {}
    with hushed():
        pipeline.enable_lora_hotswap(target_rank=rank)
        pipeline.load_lora_weights(dict(files[0]), adapter_name="one")
        found["diffusers hotswap"] = measured(
            lambda number: pipeline.load_lora_weights(dict(files[number % 2]), adapter_name="one", hotswap=True),
            SLOW_TIMES,
        )
        pipeline.unload_lora_weights()
        pipeline.transformer._prepare_lora_hotswap_kwargs = None

        def again(number: int) -> None:
            pipeline.unload_lora_weights()
            pipeline.load_lora_weights(dict(files[number % 2]), adapter_name="one")

        found["diffusers unload and load"] = measured(again, SLOW_TIMES)
        started_s = time.perf_counter()
        pipeline.fuse_lora()
        pipeline.unfuse_lora()
        found["diffusers fuse and unfuse, once"] = (time.perf_counter() - started_s) * 1000
        pipeline.unload_lora_weights()
    return found


def forwards() -> dict[str, float]:
    """One denoising step of few tokens in one block of each kind: what a small adapter costs where large ones go."""
    model = flux_blocks(1, 1)
    layers = _layers(model)
    found = {"no slot": measured(lambda number: _forward(model), FORWARDS)}
    slot = _slot(model, layers)
    small = pack(compact_of(random_adapter(layers, ATTENTION, 4), "small"), slot.storage.layouts, torch.bfloat16)
    slot.clear()
    found["no adapter, tiers up to 128"] = measured(lambda number: _forward(model), FORWARDS)
    slot.fill((), small, 1.0)
    found["rank 4 at tier 16, tiers up to 128"] = measured(lambda number: _forward(model), FORWARDS)
    slot.rehearse(TIERS[-1])
    found["zeros at tier 128"] = measured(lambda number: _forward(model), FORWARDS)
    return found


def main() -> None:
    """Print the times, then one JSON object."""
    torch.manual_seed(0)
    model = flux_blocks()
    layers = _layers(model)
    files = {
        case: [random_adapter(layers, targets, rank, seed) for seed in (1, 2)]
        for case, (targets, rank) in CASES.items()
    }
    cases: dict[str, dict[str, float]] = {
        case: theirs(pipeline_of(model), files[case], CASES[case][1]) for case in CASES
    }
    slot = _slot(model, layers)
    for case, tensors in files.items():
        adapters = [
            pack(compact_of(each, str(number)), slot.storage.layouts, torch.bfloat16)
            for number, each in enumerate(tensors)
        ]
        padded_bytes = slot.storage.arrange(adapters[0].ranks).layout.size * 2
        cases[case] |= ours(slot, adapters) | copies(adapters, padded_bytes)
        cases[case] |= {"payload_mb": adapters[0].size_bytes / 1e6, "padded_mb": padded_bytes / 1e6}
    for case, found in cases.items():
        print(case)
        for name, value in found.items():
            print(f"  {name:36} {value:10.3f}")
    forward_ms = forwards()
    first = cases["attention rank 16"]
    whole = first["ours: whole"]
    result = {
        "ratio_to_foreach_copy": first["ours: copy"] / first["foreach_copy"],
        "ratio_to_flat_copy": whole / first["flat copy, padded"],
        "ratio_to_flat_copy_of_payload": whole / first["flat copy"],
        "speedup_vs_diffusers_hotswap": first["diffusers hotswap"] / whole,
        "speedup_vs_unload_load": first["diffusers unload and load"] / whole,
        "threads": torch.get_num_threads(),
        "forward_ms": forward_ms,
        "cases": cases,
    }
    print(json.dumps(result))


def _layers(model: FluxTransformer2DModel) -> Layers:
    return {f"transformer.{name}": shape for name, shape in transformer_layers(model.config).items()}


def _slot(model: FluxTransformer2DModel, layers: Layers) -> Slot:
    layouts = Layouts(layers, torch.bfloat16.itemsize, frozenset(["transformer"]))
    return Slot({"transformer": model}, layouts, TIERS, torch.bfloat16, "cpu")


def _forward(model: FluxTransformer2DModel) -> None:
    def zeros(*shape: int) -> torch.Tensor:
        return torch.zeros(*shape, dtype=torch.bfloat16)

    with torch.no_grad():
        model(
            hidden_states=zeros(1, TOKENS, 64),
            encoder_hidden_states=zeros(1, TOKENS, 4096),
            pooled_projections=zeros(1, 768),
            timestep=zeros(1),
            img_ids=zeros(TOKENS, 3),
            txt_ids=zeros(TOKENS, 3),
            guidance=zeros(1),
            return_dict=False,
        )


if __name__ == "__main__":
    main()
