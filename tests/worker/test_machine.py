from __future__ import annotations

from pathlib import Path

import pytest

from worker.machine import read_machine, within


def test_a_machine_without_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    machine = read_machine()
    assert (machine.device, machine.capability) == ("cpu", None)
    assert 0 < machine.free_bytes <= machine.memory_bytes


def test_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    class Card:
        name, major, minor, total_memory = "NVIDIA L4", 8, 9, 24

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.current_device", lambda: 0)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: Card)
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda: (23, 24))
    machine = read_machine()
    assert machine.title == "NVIDIA L4 (compute capability 8.9)"
    assert (machine.memory_bytes, machine.free_bytes) == (24, 23)


def test_a_container_has_less_than_its_computer(tmp_path: Path) -> None:
    assert within(tmp_path, 100, 80) == (100, 80)
    (tmp_path / "memory.current").write_text("30\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert within(tmp_path, 100, 80) == (100, 80)
    (tmp_path / "memory.max").write_text("40\n")
    assert within(tmp_path, 100, 80) == (40, 10)
