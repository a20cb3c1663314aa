"""The registry of adapters: all of it, and as one request sees it."""

from __future__ import annotations

import pytest

from shared.registry import RegisteredAdapter, Registry
from shared.server import connect_worker
from shared.settings import Settings


def adapter(name: str) -> RegisteredAdapter:
    return RegisteredAdapter(name=name, base_model="tiny-flux", sha256="0" * 64, location=f"builtin:{name}", rank=4)


@pytest.fixture
def registry(redis_url: str) -> Registry:
    made = Registry(connect_worker(Settings(redis_url=redis_url)))
    for name in ("a", "b", "c"):
        made.put(adapter(name))
    return made


def test_some_of_them(registry: Registry) -> None:
    assert registry.some(["c", "unknown", "a"]) == {"c": adapter("c"), "a": adapter("a")}
    assert registry.some([]) == {}


def test_a_request_sees_the_names_that_it_gave_as_they_were(registry: Registry) -> None:
    seen = registry.looked_up(["a", "unknown"])
    registry.remove("a")
    registry.put(adapter("unknown"))
    assert seen.get("a") == adapter("a")
    assert "unknown" not in seen


def test_a_request_can_list_them_all(registry: Registry) -> None:
    seen = registry.looked_up(["a"])
    assert sorted(seen) == ["a", "b", "c"]
    assert len(seen) == 3
    assert seen["b"] == adapter("b")


def test_names_that_were_not_given_are_read_once_and_only_then(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = registry.looked_up(["a"])
    read: list[str] = []
    everything = registry.all()
    monkeypatch.setattr(registry, "all", lambda: read.append("all") or everything)
    assert seen["a"] == adapter("a")
    assert read == []
    assert seen["b"] == seen.get("b") == adapter("b")
    assert read == ["all"]
