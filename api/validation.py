"""From pydantic's findings to sentences that name the field, what was given, and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field

from api.limits import Place, fixed_range, meant, model_at, path_of, range_of, shown
from shared.catalogue import Catalogue

NOT_JSON = "json_invalid"
UNKNOWN = "extra_forbidden"
MOST_FINDINGS = 20


class FieldProblem(BaseModel):
    """What is wrong with one field."""

    field: str = Field(examples=["adapters[0].scale"])
    message: str = Field(description="One sentence: what was given, and what is allowed.")


def is_not_json(error: RequestValidationError) -> str | None:
    """What is wrong with a body that is no JSON at all; None when it is."""
    for finding in error.errors():
        if finding["type"] == NOT_JSON:
            return f"The body is not JSON: {finding['ctx']['error']} at character {finding['loc'][-1]}."
    return None


def findings(error: RequestValidationError, catalogue: Catalogue) -> list[FieldProblem]:
    """The faults of a request, unknown fields first, because they explain missing ones; at most ``MOST_FINDINGS``."""
    ordered = sorted(error.errors(), key=lambda found: found["type"] != UNKNOWN)
    return [_finding(found, error.body, catalogue) for found in ordered[:MOST_FINDINGS]]


def _finding(found: Mapping[str, Any], body: object, catalogue: Catalogue) -> FieldProblem:
    where, *place = found["loc"]
    if where == "body" and not place:
        return FieldProblem(field="body", message=_whole(found["type"], body))
    if place[0] == "metadata" and place[2:] == ["[key]"]:
        del place[1:]
    field = path_of(place)
    return FieldProblem(field=field, message=f"{field}: {_fault(found, where, place, body, catalogue)}.")


def _whole(kind: str, body: object) -> str:
    if kind == "missing":
        return "body: a JSON object is required."
    if isinstance(body, bytes):
        return "body: send a JSON object with the header Content-Type: application/json."
    return f"body: a JSON object is required, not {shown(body)}."


def _fault(found: Mapping[str, Any], where: str, place: Place, body: object, catalogue: Catalogue) -> str:
    if found["type"] == "missing":
        return "is required"
    if found["type"] == UNKNOWN:
        return f"is not known here; {_known(place)}"
    rule = _rule(place, body, catalogue) if where == "body" else None
    return f"{shown(found['input'])} is not allowed; {rule or _words(found)}"


def _words(found: Mapping[str, Any]) -> str:
    kind, message, limits = found["type"], str(found["msg"]), found.get("ctx", {})
    match kind:
        case "too_long":
            return f"at most {limits['max_length']} items are taken"
        case "too_short":
            return f"{limits['min_length']} or more items are taken"
        case "model_attributes_type" | "model_type" | "dict_type":
            return "an object is required"
        case "string_pattern_mismatch":
            return "printable ASCII characters are taken"
        case _:
            return message[:1].lower() + message[1:]


def _known(place: Sequence[str | int]) -> str:
    model = model_at(place[:-1])
    names = list(model.model_fields) if model else []
    close = get_close_matches(str(place[-1]), names, n=1)
    return (f"did you mean {close[0]}? " if close else "") + f"allowed are: {', '.join(names)}"


def _rule(place: Place, body: object, catalogue: Catalogue) -> str | None:
    entry = meant(body, catalogue)
    limits = range_of(entry, str(place[-1])) if entry and len(place) == 1 else None
    if entry and limits:
        return f"{entry.name} takes {limits}"
    fixed = fixed_range(place)
    return f"allowed are {fixed}" if fixed else None
