"""What a request may hold, in words: for refusals, and for the description of what is served."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from shared.catalogue import BaseModelEntry, Catalogue
from shared.request import AdapterRequest, JobRequest, WebhookRequest
from shared.sources.source import shown as without_secret

LONGEST_SHOWN = 40
"""Characters of a caller's value that a refusal repeats."""

Place = Sequence[str | int]
"""Where a value stands in a request's body: field names and list positions."""

_MODELS: dict[tuple[str, ...], type[BaseModel]] = {
    (): JobRequest,
    ("adapters",): AdapterRequest,
    ("webhook",): WebhookRequest,
}


def shown(value: object) -> str:
    """A value as a refusal repeats it: short, and printable whatever it holds."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, str):
        value = without_secret(value)
        cut = value if len(value) <= LONGEST_SHOWN else value[:LONGEST_SHOWN] + "..."
        return json.dumps(cut)
    return json.dumps(value, default=lambda other: type(other).__name__)[:LONGEST_SHOWN]


def path_of(place: Place) -> str:
    """A place as one word: ``adapters[0].scale``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".")


def model_at(place: Place) -> type[BaseModel] | None:
    """The model whose fields stand at a place, or None where free names may stand."""
    return _MODELS.get(tuple(str(part) for part in place if not isinstance(part, int)))


def range_of(entry: BaseModelEntry, field: str) -> str | None:
    """What the base model takes for a field, or None where the base model does not matter."""
    sizes, sampling = entry.sizes, entry.sampling
    match field:
        case "width" | "height":
            return f"multiples of {sizes.multiple_of} from {sizes.smallest} to {sizes.largest}"
        case "steps":
            return f"whole numbers from 1 to {sampling.largest_steps}"
        case "guidance_scale":
            return f"numbers from 0 to {sampling.largest_guidance_scale:g}"
        case _:
            return None


def takes(entry: BaseModelEntry, field: str, value: float) -> bool:
    """Whether the base model takes this value; what it takes is said by ``range_of``."""
    sizes, sampling = entry.sizes, entry.sampling
    match field:
        case "width" | "height":
            return sizes.takes(value)
        case "steps":
            return 1 <= value <= sampling.largest_steps
        case "guidance_scale":
            return 0 <= value <= sampling.largest_guidance_scale
        case _:
            return True


def fixed_range(place: Place) -> str | None:
    """The range that every base model takes at a place, or None where there are not two ends."""
    model = model_at(place[:-1]) if place else None
    field = model.model_fields.get(str(place[-1])) if model else None
    if field is None:
        return None
    low, high = _bound(field, "ge", "gt"), _bound(field, "le", "lt")
    if low is None or high is None:
        return None
    noun = "whole numbers" if int in (field.annotation, *get_args(field.annotation)) else "numbers"
    return f"{noun} from {low} to {high}"


def meant(body: object, catalogue: Catalogue) -> BaseModelEntry | None:
    """The base model that a faulty body is probably for: the one it names, or the only one there is."""
    named = body.get("base_model") if isinstance(body, dict) else None
    if isinstance(named, str) and named in catalogue.base_models:
        return catalogue.base_models[named]
    return next(iter(catalogue.base_models.values())) if len(catalogue.base_models) == 1 else None


def _bound(field: FieldInfo, *names: str) -> str | None:
    for rule in field.metadata:
        for name in names:
            value = getattr(rule, name, None)
            if value is not None:
                number = f"{value:g}" if isinstance(value, float) else str(value)
                return f"above {number}" if name == "gt" else number
    return None
