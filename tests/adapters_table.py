"""What is accepted and refused, as ``docs/adapters.md`` shows it: said by the code itself about example files.

``python -m tests.adapters_table`` writes it.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path

from shared.adapters.base import BaseLayers
from shared.adapters.inspection import Verdict, inspect
from shared.adapters.kinds import KINDS
from shared.adapters.names import Dialect
from shared.errors import AdapterChanged, AdapterNotFinite
from shared.families.bundled import bundled_models
from tests.adapter_bytes import adapter_bytes

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "adapters.md"
BEGIN, END = "<!-- {}: begin -->", "<!-- {}: end -->"
TOP_RANK = 64

# Who writes such files, and one layer in their words with the endings of its halves, for FLUX or for a UNet.
_DIALECTS = {
    Dialect.DIFFUSERS: (
        "diffusers `save_lora_weights`, ai-toolkit's older files",
        "transformer.transformer_blocks.0.attn.to_q",
        "lora_A",
        "lora_B",
    ),
    Dialect.DIFFUSERS_OLD: (
        "diffusers before 0.26 (attention processors)",
        "unet.mid_block.attentions.0.transformer_blocks.0.attn1.processor.to_q_lora",
        "down",
        "up",
    ),
    Dialect.PEFT: (
        "PEFT `save_pretrained`; only where the file says its strength",
        "base_model.model.transformer_blocks.0.attn.to_q",
        "lora_A",
        "lora_B",
    ),
    Dialect.KOHYA: (
        "kohya's sd-scripts, LyCORIS LoCon, OneTrainer for UNets",
        "lora_unet_double_blocks_0_img_attn_qkv",
        "lora_down",
        "lora_up",
    ),
    Dialect.COMFYUI: ("ai-toolkit, ComfyUI", "diffusion_model.double_blocks.0.img_attn.qkv", "lora_A", "lora_B"),
    Dialect.ONETRAINER: (
        "OneTrainer for transformers",
        "lora_transformer_transformer_blocks_0_attn_to_q",
        "lora_down",
        "lora_up",
    ),
    Dialect.XLABS: ("XLabs' x-flux", "double_blocks.0.processor.qkv_lora1", "down", "up"),
}


@dataclass(frozen=True)
class Bytes:
    """Bytes as a source."""

    content: bytes
    sha256: None = None

    @property
    def size_bytes(self) -> int:
        return len(self.content)

    def read_range(self, offset: int, length: int) -> bytes:
        return self.content[offset : offset + length]


def base(name: str) -> BaseLayers:
    model = bundled_models()[name]
    layers = {layer: shape for layer, shape in model.layers().items() if layer.startswith(model.family.denoiser)}
    return BaseLayers(model.family, layers, TOP_RANK)


def verdict(content: bytes, of: str = "flux.1-dev") -> Verdict:
    found = inspect(Bytes(content), base(of), of).verdict
    assert found is not None
    return found


# --- accepted -------------------------------------------------------------------------------------


def accepted() -> str:
    rows = ["| dialect | written by | families | verdict | for example |", "| --- | --- | --- | --- | --- |"]
    for dialect, (writers, name, down, up) in _DIALECTS.items():
        families = {
            model.family.name
            for bundled, model in bundled_models().items()
            if any(meaning.dialect is dialect for meaning in base(bundled).names.values())
        }
        of = "sdxl-base-1.0" if name.startswith("unet.") else "flux.1-dev"
        shapes = [base(of).layers[piece.layer] for piece in base(of).names[name].pieces]
        rank, outputs = 4, sum(shape.outputs for shape in shapes)
        keys = {f"{name}.{down}.weight": (rank, shapes[0].inputs), f"{name}.{up}.weight": (outputs, rank)}
        if dialect is Dialect.PEFT:
            keys[f"{name}.alpha"] = ()
        said = verdict(adapter_bytes(keys), of).outcome
        rows.append(
            f"| `{dialect.value}` | {writers} | {', '.join(sorted(families))} | {said} | `{name}.{down}.weight` |"
        )
    return "\n".join(rows)


# --- refused --------------------------------------------------------------------------------------

_QUERY = "transformer.transformer_blocks.0.attn.to_q"
_CLIP = "text_encoder.text_model.encoder.layers.0.mlp.fc1"


def _pair(name: str = _QUERY, rank: int = 4, inputs: int = 3072, outputs: int = 3072) -> dict[str, tuple[int, ...]]:
    return {f"{name}.lora_A.weight": (rank, inputs), f"{name}.lora_B.weight": (outputs, rank)}


def _config(**fields: object) -> dict[str, str]:
    return {"lora_adapter_metadata": json.dumps({f"transformer.{key}": value for key, value in fields.items()})}


def examples() -> list[tuple[str, bytes]]:
    """Files that are refused, each for another reason, with words for what they are."""
    good = adapter_bytes(_pair())
    return [
        *((f"`{kind.example}`", adapter_bytes(_pair() | {kind.example: (4, 4)})) for kind in KINDS),
        ("text encoders, where the catalogue leaves them as they are", adapter_bytes(_pair(_CLIP))),
        ("an adapter for another family", adapter_bytes(_pair("lora_unet_input_blocks_4_1_proj_in"))),
        (
            "layers that the base model does not have",
            adapter_bytes(_pair("transformer.transformer_blocks.77.attn.to_q")),
        ),
        ("other dimensions", adapter_bytes(_pair(inputs=6144, outputs=6144))),
        ("A without B", adapter_bytes({f"{_QUERY}.lora_A.weight": (4, 3072)})),
        ("a rank above the largest tier", adapter_bytes(_pair(rank=65))),
        ("metadata of another rank", adapter_bytes(_pair(), _config(r=8, lora_alpha=8))),
        ("metadata that asks for more than LoRA", adapter_bytes(_pair(), _config(r=4, lora_alpha=8, use_qalora=True))),
        ("PEFT's names without a strength", adapter_bytes(_pair(_QUERY.removeprefix("transformer.")))),
        ("one layer twice", adapter_bytes(_pair() | {f"{_QUERY}.lora_down.weight": (4, 3072)})),
        ("weights that are no plain numbers", adapter_bytes(_pair(), dtype="I8")),
        ("keys of unknown meaning", adapter_bytes(_pair() | {f"{_QUERY}.scalar": ()})),
        ("names of no known dialect", adapter_bytes(_pair("model.layers.0"))),
        ("no tensors", adapter_bytes({})),
        ("an empty file", b""),
        ("half a file", good[: len(good) // 2]),
        ("bytes after the end", good + bytes(16)),
        ("a header of 2^40 bytes", struct.pack("<Q", 1 << 40) + b"{}"),
        ("another header", struct.pack("<Q", 4) + b"null"),
        ("a pickle", b"PK\x03\x04" + bytes(60)),
        ("a web page", b"<!DOCTYPE html><html><body>Not found</body></html>"),
        ("a Git LFS pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"),
        ("a GGUF file", b"GGUF" + bytes(60)),
    ]


def refused() -> str:
    rows = ["| code | reason | what it is | what is said |", "| --- | --- | --- | --- |"]
    for words, content in examples():
        said = verdict(content)
        assert said.outcome == "refused", words
        assert said.sentence is not None
        sentence = said.sentence.partition("; first of")[0].rstrip(".")
        rows.append(f"| `{said.code}` | `{said.reason}` | {words} | {sentence}. |")
    for error, words in (
        (AdapterNotFinite, "weights or strengths that are not finite; seen when the weights are read"),
        (AdapterChanged, "other bytes than those that the job was admitted with; seen when they are read"),
    ):
        rows.append(f"| `{error.code}` | `{error.code.removeprefix('adapter_')}` | {words} | {error.__doc__} |")
    return "\n".join(rows)


# --- the page -------------------------------------------------------------------------------------


def replaced(page: str) -> str:
    """The page with fresh tables between its markers."""
    for name, table in (("accepted", accepted()), ("refused", refused())):
        begin, end = BEGIN.format(name), END.format(name)
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}\n{table}\n{end}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
