"""What a file says about its strengths beside its weights: the PEFT config it was trained with. No torch.

``save_lora_weights`` of diffusers 0.42 writes it as JSON into ``__metadata__`` under ``lora_adapter_metadata``, each
field with its component's name before it (``unet.r``); PEFT itself writes it as ``adapter_config.json``. Without it the
strength of a layer is alpha / rank, or 1 where there is no alpha.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from shared.adapters.header import shown
from shared.errors import AdapterNotFinite, AdapterUnreadable, AdapterUnsupported
from shared.families.family import Family

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
# Patterns come from strangers: no repetition, so that each stands for names of one length, and not too many of them.
_SAFE_PATTERN = re.compile(r"\^?(?:[A-Za-z0-9_.]|\\\.){1,300}")
_MOST_PATTERNS = 4096
_ANY = "\0"


@dataclass(frozen=True)
class NamePattern:
    """A pattern for layer names: ``text`` in which ``_ANY`` is any character; ``whole``: nothing stands before it."""

    text: str
    whole: bool

    def matches(self, layer: str) -> bool:
        """As PEFT does: the whole name, or its end after a dot."""
        before = len(layer) - len(self.text)
        if before and (before < 0 or self.whole or layer[before - 1] != "."):
            return False
        return all(one in (other, _ANY) for one, other in zip(self.text, layer[before:], strict=True))


Exceptions = tuple[tuple[NamePattern, Value], ...]
"""Values of some layers; the first pattern that matches counts."""


@dataclass(frozen=True)
class LoraConfig:
    """Rank and alpha, with exceptions by layer name, and whether alpha is divided by the root of the rank."""

    rank: int
    alpha: float
    ranks: Exceptions[int] = ()
    alphas: Exceptions[float] = ()
    rank_stabilised: bool = False

    def alpha_of(self, *spellings: str) -> float:
        """Alpha of a layer, under any of its names without the component."""
        return _looked_up(self.alphas, spellings, self.alpha)

    def rank_of(self, *spellings: str) -> int:
        """Rank that the config gives a layer."""
        return _looked_up(self.ranks, spellings, self.rank)


def _looked_up(exceptions: Exceptions[Value], spellings: tuple[str, ...], otherwise: Value) -> Value:
    for pattern, value in exceptions:
        if any(map(pattern.matches, spellings)):
            return value
    return otherwise


def read_lora_configs(
    metadata: Mapping[str, str], family: Family, adapter_config: str | None = None
) -> dict[str, LoraConfig]:
    """The configs in the file's metadata by component; refuses what would change the meaning.

    ``adapter_config``: what PEFT saved beside a file of its own names, for the denoiser; the metadata comes first.
    """
    found = _of_components(_object(metadata.get(METADATA_KEY), METADATA_KEY), family)
    if not found and adapter_config:
        found = {family.denoiser: _object(adapter_config, "adapter_config.json")}
    return {component: _config(fields) for component, fields in found.items()}


def _object(text: str | None, where: str) -> dict[str, object]:
    if not text:
        return {}
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raise AdapterUnreadable(f"its metadata {where} is not valid JSON.", reason="metadata") from None
    if not isinstance(raw, dict):
        raise AdapterUnreadable(f"its metadata {where} is not a JSON object.", reason="metadata")
    return raw


def _of_components(raw: Mapping[str, object], family: Family) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for key, value in raw.items():
        component, _, name = key.partition(".")
        if not name or component not in family.components:
            components = ", ".join(family.components)
            raise _unclear(f"{METADATA_KEY} has fields that belong to none of {components}: {shown(key)}")
        found.setdefault(component, {})[name] = value
    return found


def _config(fields: Mapping[str, object]) -> LoraConfig:
    _refuse_special(fields)
    rank, alpha = fields.get("r"), fields.get("lora_alpha")
    if type(rank) is not int or rank < 1:
        raise _unclear("does not give the rank (r) as a whole number above 0")
    return LoraConfig(
        rank=rank,
        alpha=_number(alpha, "lora_alpha"),
        ranks=tuple((pattern, round(value)) for pattern, value in _exceptions(fields, "rank_pattern")),
        alphas=_exceptions(fields, "alpha_pattern"),
        rank_stabilised=bool(fields.get("use_rslora")),
    )


def _refuse_special(fields: Mapping[str, object]) -> None:
    for name, value in fields.items():
        if name in _INERT or name in _READ:
            continue
        allowed = _PLAIN.get(name)
        plain = value in allowed if allowed else not value
        if not plain:
            said = f" as {shown(value, 60)}" if isinstance(value, str) else ""
            raise _unclear(f"gives {shown(name)}{said}, which is not served")


def _exceptions(fields: Mapping[str, object], name: str) -> Exceptions[float]:
    found = fields.get(name) or {}
    if not isinstance(found, dict):
        raise _unclear(f"gives {name} in a form that is not known")
    if len(found) > _MOST_PATTERNS:
        raise _unclear(f"gives {name} for {len(found)} layers; at most {_MOST_PATTERNS} are read")
    return tuple((_name_pattern(pattern, name), _number(value, name)) for pattern, value in found.items())


def _name_pattern(pattern: str, name: str) -> NamePattern:
    if not _SAFE_PATTERN.fullmatch(pattern):
        raise _unclear(f"uses the pattern {shown(pattern)} in {name}; only plain layer names are served")
    literal_dot = "\1"
    text = pattern.removeprefix("^").replace("\\.", literal_dot).replace(".", _ANY).replace(literal_dot, ".")
    return NamePattern(text, pattern.startswith("^"))


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _unclear(f"does not give {name} as a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise AdapterNotFinite(f"its metadata gives {name} as a value that is not finite.")
    return number


def _unclear(what: str) -> AdapterUnsupported:
    return AdapterUnsupported(f"its metadata {what}.", reason="metadata")
