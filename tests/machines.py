"""Machines of every class, as they would describe themselves; none of them is needed."""

from __future__ import annotations

from dataclasses import replace

from shared.machine import GIB, Machine


def card(name: str, capability: tuple[int, int], memory_gib: float) -> Machine:
    """A card on which nothing runs yet but the driver."""
    memory_bytes = int(memory_gib * GIB)
    return Machine("cuda", name, capability, memory_bytes, memory_bytes - GIB // 2)


def half_taken(machine: Machine) -> Machine:
    """The same, with another program in half of its memory."""
    return replace(machine, free_bytes=machine.memory_bytes // 2)


CPU = Machine("cpu", "a computer without a card, 64 GB", None, 64 * GIB, 60 * GIB)
SMALL_CPU = Machine("cpu", "a computer without a card, 8 GB", None, 8 * GIB, 6 * GIB)
GTX_1080_TI = card("GTX 1080 Ti", (6, 1), 11)
T4 = card("T4", (7, 5), 15)
RTX_3070 = card("RTX 3070", (8, 6), 8)
RTX_3060 = card("RTX 3060", (8, 6), 12)
RTX_4060_TI = card("RTX 4060 Ti 16 GB", (8, 9), 16)
RTX_3090 = card("RTX 3090", (8, 6), 24)
RTX_4090 = card("RTX 4090", (8, 9), 24)
A100_40 = card("A100 40 GB", (8, 0), 40)
A100_80 = card("A100 80 GB", (8, 0), 80)
L40S = card("L40S", (8, 9), 45)
H100 = card("H100", (9, 0), 80)
H200 = card("H200", (9, 0), 140)
B200 = card("B200", (10, 0), 179)

ALL = (
    CPU, SMALL_CPU, GTX_1080_TI, T4, RTX_3070, RTX_3060, RTX_4060_TI, RTX_3090, RTX_4090, A100_40, A100_80, L40S,
    H100, H200, B200,
)  # fmt: skip
