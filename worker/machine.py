"""What this machine offers to a base model, read from the card or, where there is none, from the computer."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil
import torch

from shared.machine import Machine

_CGROUP = Path("/sys/fs/cgroup")


def read_machine() -> Machine:
    """The card that torch takes by default, else the CPU with the memory that a process may still have."""
    if torch.cuda.is_available():
        card = torch.cuda.get_device_properties(torch.cuda.current_device())
        free_bytes, _ = torch.cuda.mem_get_info()
        return Machine("cuda", card.name, (card.major, card.minor), card.total_memory, free_bytes)
    total_bytes, free_bytes = within(_CGROUP, psutil.virtual_memory().total, psutil.virtual_memory().available)
    return Machine("cpu", "this CPU", None, total_bytes, free_bytes)


def within(cgroup: Path, total_bytes: int, free_bytes: int) -> tuple[int, int]:
    """Total and free memory, of which a container may have less (control groups, version 2)."""
    with suppress(OSError, ValueError):
        most_bytes = int((cgroup / "memory.max").read_text())
        used_bytes = int((cgroup / "memory.current").read_text())
        return min(total_bytes, most_bytes), min(free_bytes, max(0, most_bytes - used_bytes))
    return total_bytes, free_bytes
