"""Checkpoints of the training: written whole or not at all, so that a run stopped anywhere goes on from the last."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

EVERY = 100
"""Steps from one checkpoint to the next."""


def due(step: int, steps: int) -> bool:
    """Whether a checkpoint is written after this many of these steps."""
    return step % EVERY == 0 or step == steps


def save(path: Path, state: dict[str, Any]) -> None:
    """Write ``state`` at ``path``, replacing what was there at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    torch.save(state, part)
    os.replace(part, path)


def load(path: Path) -> dict[str, Any] | None:
    """What was saved at ``path``; None if nothing was."""
    if not path.is_file():
        return None
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state
