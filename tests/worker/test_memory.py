"""Converted adapters in memory: by bytes, pinned ones never go, one conversion at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest

from tests.worker.fakes import FakeAdapter
from worker.memory import AdapterMemory, Memory


def put(memory: Memory[FakeAdapter], *names: str, size_bytes: int = 1) -> None:
    for name in names:
        memory.get_or_make(name, lambda name=name: FakeAdapter(name, size_bytes))  # type: ignore[misc]


def test_it_is_what_others_are_told_of() -> None:
    memory: AdapterMemory = Memory(10)
    assert (memory.sha256s, memory.size_bytes, memory.made) == ((), 0, 0)


def test_what_was_used_longest_ago_goes_first() -> None:
    memory: Memory[FakeAdapter] = Memory(2)
    put(memory, "a", "b", "a", "c")
    assert memory.sha256s == ("a", "c")
    memory.touch(["a", "not here"])
    put(memory, "d")
    assert memory.sha256s == ("a", "d")
    assert (memory.size_bytes, memory.made) == (2, 4)


def test_one_larger_than_all_is_made_but_not_kept() -> None:
    memory: Memory[FakeAdapter] = Memory(2)
    put(memory, "a")
    put(memory, "huge", size_bytes=3)
    assert memory.sha256s == ("a",)


def test_several_go_for_a_large_one() -> None:
    memory: Memory[FakeAdapter] = Memory(4)
    put(memory, "a", "b", "c")
    put(memory, "large", size_bytes=3)
    assert memory.sha256s == ("c", "large")
    assert memory.size_bytes == 4


def test_pinned_ones_never_go() -> None:
    memory: Memory[FakeAdapter] = Memory(3)
    memory.pin(["a", "b"])
    put(memory, "a", "b", "c", "d")
    assert memory.sha256s == ("a", "b", "d")
    put(memory, "large", size_bytes=2)
    assert memory.sha256s == ("a", "b", "d")
    memory.pin(["b"])
    put(memory, "large", size_bytes=2)
    assert memory.sha256s == ("b", "large")


def test_one_thread_converts_while_the_others_wait() -> None:
    memory: Memory[FakeAdapter] = Memory(10)
    together, made = Barrier(8), []

    def make() -> FakeAdapter:
        made.append("a")
        Event().wait(0.05)
        return FakeAdapter("a")

    def get() -> FakeAdapter:
        together.wait(30)
        return memory.get_or_make("a", make)

    with ThreadPoolExecutor(8) as pool:
        found = [future.result(30) for future in [pool.submit(get) for _ in range(8)]]
    assert made == ["a"]
    assert all(one is found[0] for one in found)


def test_two_adapters_are_converted_at_once() -> None:
    memory: Memory[FakeAdapter] = Memory(10)
    together = Barrier(2)

    def make(name: str) -> FakeAdapter:
        together.wait(30)
        return FakeAdapter(name)

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(memory.get_or_make, name, lambda name=name: make(name)) for name in "ab"]  # type: ignore[misc]
        assert [future.result(30).sha256 for future in futures] == ["a", "b"]


def test_after_a_failure_whoever_waited_tries_it_himself() -> None:
    memory: Memory[FakeAdapter] = Memory(10)
    begun, go = Event(), Event()

    def fail() -> FakeAdapter:
        begun.set()
        go.wait(30)
        raise ValueError("of the first")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(memory.get_or_make, "a", fail)
        assert begun.wait(30)
        second = pool.submit(memory.get_or_make, "a", lambda: FakeAdapter("a"))
        go.set()
        with pytest.raises(ValueError, match="of the first"):
            first.result(30)
        assert second.result(30).sha256 == "a"
    assert memory.made == 1
