"""Which keys may be left on the server once all work is done. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from shared import keys

BROKER = re.compile(r"_kombu\.|unacked|base\.|notify")
"""Celery's own keys, as ``shared.keys`` names them."""
NO_LIFETIME = -1
KEPT = "kept"


def leaked(found: Iterable[tuple[str, int]]) -> list[str]:
    """Names that nobody will ever remove, of (name, PTTL): without a lifetime and not said to be kept, or unknown."""
    return sorted(name for name, ttl_ms in found if not BROKER.match(name) and not _may_stay(name, ttl_ms))


def _may_stay(name: str, ttl_ms: int) -> bool:
    kind = kind_of(name)
    return kind is not None and (ttl_ms != NO_LIFETIME or kind.lifetime.startswith(KEPT))


def kind_of(name: str) -> keys.Key | None:
    """What kind of key this is; None for a stranger. The longest template goes first where several fit."""
    fitting = [key for key in keys.ALL if re.fullmatch(_pattern(key), name, re.DOTALL)]
    return max(fitting, key=lambda key: len(re.sub(r"{\w+}", "", key.template)), default=None)


def _pattern(key: keys.Key) -> str:
    return "".join(".+" if piece.startswith("{") else re.escape(piece) for piece in re.split(r"({\w+})", key.template))
