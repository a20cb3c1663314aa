"""What inspection tells of a file, and how little of it is read."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from shared.adapters.base import BaseLayers
from shared.adapters.header import FIRST_READ_BYTES, read_header
from shared.adapters.inspection import Inspection, error_of, inspect, inspect_header
from shared.errors import AdapterMismatch, StoreUnavailable
from shared.families.bundled import bundled_models
from tests.adapter_bytes import adapter_bytes, header_bytes
from tests.shared.adapters.field_headers import field_headers

DEV = BaseLayers(bundled_models()["flux.1-dev"].family, bundled_models()["flux.1-dev"].layers(), top_rank=128)
HEADERS = field_headers()


@dataclass
class Remote:
    """A file of which only the beginning exists; notes what is read."""

    start: bytes
    size_bytes: int
    sha256: str | None = None
    read: list[tuple[int, int]] = field(default_factory=list)

    def read_range(self, offset: int, length: int) -> bytes:
        self.read.append((offset, length))
        assert offset + length <= len(self.start), "the weights were read"
        return self.start[offset : offset + length]


def whole(content: bytes) -> Remote:
    return Remote(content, len(content), "ab" * 32)


def look(name: str, base: BaseLayers | None = DEV) -> Inspection:
    header = HEADERS[name].header()
    return inspect_header(header, whole(b""), base, "dev")


@pytest.mark.parametrize(
    ("name", "dialect", "outcome", "alphas"),
    [
        ("aitoolkit", "comfyui", "converts", "none"),
        ("diffusers", "diffusers", "fits", "none"),
        ("kohya", "kohya", "converts", "all"),
        ("xlabs", "xlabs", "converts", "none"),
        ("dora_onetrainer", "onetrainer", "refused", "all"),
        ("control_lora", "peft", "refused", "none"),
    ],
)
def test_real_adapters(name: str, dialect: str, outcome: str, alphas: str) -> None:
    found = look(name)
    assert found.verdict is not None
    assert (found.family, found.dialect, found.verdict.outcome, found.alphas) == ("flux.1", dialect, outcome, alphas)
    assert found.tensors == len(HEADERS[name].shapes())
    assert found.dtypes == {"BF16": found.tensors}
    alone = look(name, base=None)
    assert (alone.family, alone.dialect, alone.verdict) == ("flux.1", dialect, None)
    assert Inspection.model_validate_json(found.model_dump_json()) == found


def test_layers_are_counted() -> None:
    found = look("aitoolkit")
    assert found.targets is not None
    assert found.ranks is not None
    assert found.targets["transformer.transformer_blocks.*.attn.to_q"] == 19
    assert sum(found.targets.values()) == 19 * 12 + 38 * 5
    assert (found.ranks.smallest, found.ranks.largest, found.ranks.layers) == (16, 16, {16: 228})
    assert look("control_lora").ranks == look("control_lora", base=None).ranks
    assert look("dora_onetrainer").text_encoder_keys == (72 + 168) * 4


def test_a_gigabyte_costs_less_than_a_megabyte() -> None:
    shapes = HEADERS["dora_onetrainer"].shapes()
    shapes["transformer.proj_out.lora_A.weight"] = (1 << 28, 1)
    raw, data_bytes = header_bytes({name: ("F32", shape) for name, shape in shapes.items()})
    content = len(raw).to_bytes(8, "little") + raw
    remote = Remote(content, len(content) + data_bytes)
    found = inspect(remote, DEV, "dev")
    assert remote.size_bytes > 1 << 30
    assert found.verdict is not None
    assert found.verdict.reason == "dora"
    assert sum(length for _, length in remote.read) < 1 << 20
    assert remote.read[0] == (0, FIRST_READ_BYTES)
    assert len(remote.read) == 2


def test_a_source_that_ends_early() -> None:
    content = adapter_bytes({"a": (2, 3)})
    short = Remote(content + bytes(100), len(content) + 100)
    short.read_range = lambda offset, length: content[offset : offset + length]  # type: ignore[method-assign]
    found = inspect(short, DEV, "dev")
    assert found.verdict is not None
    assert (found.verdict.outcome, found.verdict.reason) == ("refused", "cut_off")
    assert (found.family, found.ranks) == (None, None)


def test_what_a_source_raises_passes_through() -> None:
    def away(offset: int, length: int) -> bytes:
        raise StoreUnavailable("away")

    remote = whole(adapter_bytes({"a": (2, 3)}))
    remote.read_range = away  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        inspect(remote, DEV, "dev")


def test_a_refusal_becomes_the_error_that_it_was() -> None:
    found = inspect_header(HEADERS["kohya"].header(), whole(b""), SD15, "sd1.5")
    assert found.verdict is not None
    error = error_of(found.verdict, "source")
    assert isinstance(error, AdapterMismatch)
    assert (error.reason, error.field) == ("other_family", "source")
    assert error.message.startswith("source: it is for another family")


SD15 = BaseLayers(bundled_models()["sd1.5"].family, bundled_models()["sd1.5"].layers(), top_rank=64)


def test_what_the_trainer_wrote() -> None:
    metadata = {
        "base_model": "black-forest-labs/FLUX.1-dev",
        "ss_base_model_version": "flux1",
        "ss_sd_model_name": "flux1-dev.safetensors",
        "modelspec.architecture": "flux-1-dev/lora",
        "modelspec.title": "Sketch\nof \ud800 things",
        "modelspec.thumbnail": "data:image/jpeg;base64," + "A" * 10_000,
        "modelspec.trigger_phrase": "sktch, ink drawing,",
        "lora_adapter_metadata": json.dumps({"transformer.base_model_name_or_path": "me/mine"}),
    }
    content = adapter_bytes({"a.lora_A.weight": (4, 8)}, metadata)
    found = inspect(whole(content), None, None)
    assert found.trained is not None
    assert found.trained.base_model == [
        "black-forest-labs/FLUX.1-dev",
        "flux1",
        "flux1-dev.safetensors",
        "flux-1-dev/lora",
        "me/mine",
    ]
    assert found.trained.trigger_words == ["sktch", "ink drawing"]
    assert found.trained.modelspec == {
        "architecture": "flux-1-dev/lora",
        "title": "Sketch of ? things",
        "trigger_phrase": "sktch, ink drawing,",
    }
    found.model_dump_json()


def test_a_family_that_is_not_certain_is_not_named() -> None:
    name = "lora_te_text_model_encoder_layers_0_mlp_fc1"
    content = adapter_bytes({f"{name}.lora_down.weight": (4, 768), f"{name}.lora_up.weight": (3072, 4)})
    found = inspect(whole(content), None, None)
    assert (found.family, found.dialect) == (None, "kohya")
    assert read_header(whole(content).read_range, len(content)).tensors
