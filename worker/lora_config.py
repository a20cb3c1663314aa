"""What a diffusers file says about its strengths in ``__metadata__``: the PEFT config it was trained with. No torch.

``save_lora_weights`` of diffusers 0.42 writes it as JSON under ``lora_adapter_metadata``, each field with the prefix
``transformer.``. Without it the strength of a layer is alpha / rank, or 1 where there is no alpha.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from shared.errors import AdapterMismatch, AdapterNotFinite, AdapterUnreadable, AdapterUnsupported
from worker.kinds import PREFIX

Value = TypeVar("Value", int, float)

METADATA_KEY = "lora_adapter_metadata"

# They say how it was trained or found, and change nothing once it is.
_TRAINING_FIELDS = (
    "auto_mapping base_model_name_or_path corda_config ensure_weight_tying eva_config exclude_modules "
    "inference_mode layers_pattern layers_to_transform loftq_config lora_dropout megatron_config megatron_core "
    "peft_version qalora_group_size revision runtime_config target_modules task_type"
)
_INERT = frozenset(_TRAINING_FIELDS.split())
_READ = frozenset(("r", "lora_alpha", "rank_pattern", "alpha_pattern", "use_rslora"))
_PLAIN = {
    "peft_type": (None, "LORA"),
    "bias": (None, "none"),
    # The others start from a changed base weight, so the file alone does not say what was trained.
    "init_lora_weights": (None, True, False, "gaussian", "eva", "orthogonal"),
}
# Patterns come from strangers: no repetition, so matching cannot run away.
_SAFE_PATTERN = re.compile(r"\^?(?:[A-Za-z0-9_.]|\\\.){1,300}")


@dataclass(frozen=True)
class LoraConfig:
    """Rank and alpha, with exceptions by layer-name pattern, and whether alpha is divided by the root of the rank."""

    rank: int
    alpha: float
    rank_pattern: Mapping[str, int] = field(default_factory=dict)
    alpha_pattern: Mapping[str, float] = field(default_factory=dict)
    rank_stabilised: bool = False

    def alpha_of(self, layer: str) -> float:
        """Alpha of this layer."""
        return _looked_up(self.alpha_pattern, layer, self.alpha)

    def rank_of(self, layer: str) -> int:
        """Rank that the config gives this layer."""
        return _looked_up(self.rank_pattern, layer, self.rank)

    def strength_of(self, layer: str, rank: int) -> float:
        """What B @ A is multiplied with; raises ``AdapterMismatch`` if the config speaks of another rank."""
        if self.rank_of(layer) != rank:
            raise AdapterMismatch(
                f"its metadata gives {layer} the rank {self.rank_of(layer)}, but the weights have rank {rank}."
            )
        return self.alpha_of(layer) / (math.sqrt(rank) if self.rank_stabilised else rank)


def _looked_up(patterns: Mapping[str, Value], layer: str, otherwise: Value) -> Value:
    # As PEFT does: the first pattern that matches the whole name or its end.
    for pattern, value in patterns.items():
        if re.match(rf"(.*\.)?({pattern})$", layer):
            return value
    return otherwise


def read_lora_config(metadata: Mapping[str, str]) -> LoraConfig | None:
    """The config in the file's metadata, or None where there is none; refuses what would change the meaning."""
    text = metadata.get(METADATA_KEY)
    if not text:
        return None
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raise AdapterUnreadable(f"its metadata {METADATA_KEY} is not valid JSON.") from None
    if not isinstance(raw, dict):
        raise AdapterUnreadable(f"its metadata {METADATA_KEY} is not a JSON object.")
    fields = {key.removeprefix(PREFIX): value for key, value in raw.items() if key.startswith(PREFIX)}
    others = [key for key in raw if not key.startswith((PREFIX, "text_encoder."))]
    if others:
        raise AdapterUnsupported(
            f"its metadata {METADATA_KEY} has fields without the prefix {PREFIX}: {others[0][:80]}."
        )
    return _config(fields) if fields else None


def _config(fields: Mapping[str, object]) -> LoraConfig:
    _refuse_special(fields)
    rank, alpha = fields.get("r"), fields.get("lora_alpha")
    if type(rank) is not int or rank < 1:
        raise AdapterUnsupported("its metadata does not give the rank (r) as a whole number above 0.")
    return LoraConfig(
        rank=rank,
        alpha=_number(alpha, "lora_alpha"),
        rank_pattern={key: round(value) for key, value in _pattern(fields, "rank_pattern").items()},
        alpha_pattern=_pattern(fields, "alpha_pattern"),
        rank_stabilised=bool(fields.get("use_rslora")),
    )


def _refuse_special(fields: Mapping[str, object]) -> None:
    for name, value in fields.items():
        if name in _INERT or name in _READ:
            continue
        allowed = _PLAIN.get(name)
        plain = value in allowed if allowed else not value
        if not plain:
            raise AdapterUnsupported(f"its metadata asks for {name} = {str(value)[:60]}, which is not served.")


def _pattern(fields: Mapping[str, object], name: str) -> dict[str, float]:
    found = fields.get(name) or {}
    if not isinstance(found, dict):
        raise AdapterUnreadable(f"its metadata gives {name} in a form that is not known.")
    for pattern in found:
        if not _SAFE_PATTERN.fullmatch(pattern):
            raise AdapterUnsupported(
                f"its {name} uses the pattern {pattern[:80]!r}; only plain layer names are served."
            )
    return {pattern: _number(value, name) for pattern, value in found.items()}


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise AdapterUnsupported(f"its metadata does not give {name} as a number.")
    if not math.isfinite(value):
        raise AdapterNotFinite(f"its metadata gives {name} as {value}.")
    return float(value)
