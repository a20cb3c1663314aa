"""An adapter as it is typed: ``NAME``, ``NAME:SCALE`` or any source, which may hold colons itself."""

from __future__ import annotations

import re
from dataclasses import dataclass

from shared.errors import InvalidRequest

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_SCHEMES = frozenset({"file", "hf", "s3", "http", "https"})


@dataclass(frozen=True)
class TypedAdapter:
    """A source and a strength; 1.0 is as trained."""

    source: str
    scale: float = 1.0

    def __str__(self) -> str:
        return self.source if self.scale == 1.0 else f"{self.source}:{self.scale:g}"


def read_adapter(word: str) -> TypedAdapter:
    """What was typed after ``--adapter``; a last part that is a number is the strength. Raises InvalidRequest."""
    first = word.partition(":")[0]
    source, colon, last = word.rpartition(":")
    if not colon or source in _SCHEMES or not _NUMBER.fullmatch(last):
        source, scale = word, 1.0
    else:
        scale = float(last)
    if first not in _SCHEMES and source != first:
        strength = word[len(first) + 1 :]
        raise InvalidRequest(f"--adapter {word!r}: {strength!r} is not a strength; write NAME:SCALE, as in night:0.8.")
    if not source or source != source.strip():
        raise InvalidRequest(f"--adapter {word!r} names no adapter; write NAME or NAME:SCALE, as in night:0.8.")
    return TypedAdapter(source, scale)
