"""What a header tells before it is held against any base model."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from shared.adapters.header import Header
from shared.adapters.keys import ALPHA, is_text_encoder, recognise
from shared.adapters.lora_config import METADATA_KEY
from shared.adapters.names import PAIRS, Dialect

_LONGEST_TEXT = 300
_MOST_WORDS = 20
_MOST_FIELDS = 40
_NAMING = ("base_model", "ss_base_model_version", "ss_sd_model_name", "modelspec.architecture")
_TRIGGERS = ("modelspec.trigger_phrase", "trigger_words", "trigger_word", "instance_prompt", "activation_text")
_DOWN = tuple(pair[0] for pair in PAIRS)
_UP = tuple(pair[1] for pair in PAIRS)


@dataclass(frozen=True)
class Facts:
    """``ranks``: how many modules have each rank. ``alphas``: how many modules bring one. ``modules``: of the file."""

    family: str | None
    dialect: Dialect | None
    ranks: dict[int, int]
    modules: int
    alphas: int
    text_encoder_keys: int
    dtypes: dict[str, int]


def facts_of(header: Header) -> Facts:
    """Counted from names and shapes; nothing here judges."""
    ranks = Counter(
        entry.shape[0] for name, entry in header.tensors.items() if name.endswith(_DOWN) and len(entry.shape) > 1
    )
    family, dialect = recognise(header.tensors)
    return Facts(
        family=family,
        dialect=dialect,
        ranks=dict(sorted(ranks.items())),
        modules=sum(name.endswith(_UP) for name in header.tensors),
        alphas=sum(name.endswith(ALPHA) for name in header.tensors),
        text_encoder_keys=sum(map(is_text_encoder, header.tensors)),
        dtypes=dict(sorted(Counter(entry.dtype for entry in header.tensors.values()).items())),
    )


def naming(metadata: Mapping[str, str]) -> list[str]:
    """What the trainer wrote about the base model, the most exact first."""
    found = [metadata[key] for key in _NAMING if metadata.get(key)]
    try:
        config = json.loads(metadata.get(METADATA_KEY, "{}"))
    except (ValueError, RecursionError):
        config = {}
    if isinstance(config, dict):
        found += [
            value
            for key, value in config.items()
            if key.endswith("base_model_name_or_path") and isinstance(value, str) and value
        ]
    return list(map(tidy, found))


def modelspec(metadata: Mapping[str, str]) -> dict[str, str]:
    """The fields of https://github.com/Stability-AI/ModelSpec, without pictures."""
    fields = sorted(key for key in metadata if key.startswith("modelspec.") and key != "modelspec.thumbnail")
    return {tidy(key.removeprefix("modelspec.")): tidy(metadata[key]) for key in fields[:_MOST_FIELDS]}


def trigger_words(metadata: Mapping[str, str]) -> list[str]:
    """Words that the adapter was trained to answer to, as far as its trainer wrote them down."""
    for key in _TRIGGERS:
        if metadata.get(key):
            words = [tidy(word) for word in re.split(r"[,\n]", metadata[key][: 10 * _LONGEST_TEXT])]
            return [word for word in words if word][:_MOST_WORDS]
    return []


def tidy(text: str) -> str:
    """One line of a bounded length that any encoding can say."""
    return " ".join(text[:_LONGEST_TEXT].encode("utf-8", "replace").decode("utf-8").split())
