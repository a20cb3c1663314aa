"""Secrets that are drawn once and then kept in files that only their owner can read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from shared.errors import Misconfigured


def kept_secret(path: Path, draw: Callable[[], str]) -> str:
    """The secret in the file; drawn and written with mode 0600 if there is none. Raises Misconfigured.

    Of several processes that draw at once, one writes, and all get what it wrote.
    """
    try:
        return _read(path) or _write(path, draw())
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"The secret in {path} cannot be kept there: {error}.") from error


def _read(path: Path) -> str:
    return path.read_text(encoding="ascii").strip() if path.exists() else ""


def _write(path: Path, secret: str) -> str:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Whole or not at all: a half-written secret would sign things that nobody can check later.
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
        file.write(secret + "\n")
        os.fchmod(file.fileno(), 0o600)
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        if not _read(path):
            draft.replace(path)
    draft.unlink(missing_ok=True)
    return _read(path)
