"""Look-ups at admission: side by side, within one budget, bounded in number."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Event

import pytest

from shared.adapter_files import sha256_of
from shared.errors import AdapterChanged, AdapterNotReady, AdapterTooLarge, UnknownAdapter
from shared.settings import Settings
from shared.sources.access import prove_access
from shared.sources.identity import Identity
from shared.sources.opened import Opened
from shared.sources.pins import MOST_AT_ONCE, Pins
from shared.sources.source import FolderFile, WebFile
from shared.sources.sources import Sources
from tests.source_server import running


def found(location: str) -> Opened:
    return Opened(Identity(location, None, None), 1, lambda offset, length: b"")


def test_all_sources_of_a_job_are_looked_up_side_by_side() -> None:
    together = Barrier(4, timeout=30)

    def look_up(name: str) -> Callable[[], Opened]:
        def run() -> Opened:
            together.wait()
            return found(name)

        return run

    pinning = Pins(30).start([(name, look_up(name)) for name in "abcd"])
    assert [pinning.opened(name).identity.location for name in "abcd"] == list("abcd")


def test_what_a_look_up_raises_is_raised() -> None:
    def look_up() -> Opened:
        raise UnknownAdapter("no")

    with pytest.raises(UnknownAdapter):
        Pins(30).start([("x", look_up)]).opened("x")


def test_the_budget_is_for_all_of_them_together() -> None:
    leave, began_s = Event(), time.monotonic()

    def hang() -> Opened:
        leave.wait(60)
        return found("late")

    pinning = Pins(0.2).start([("a", hang), ("b", hang)])
    for field in "ab":
        with pytest.raises(AdapterNotReady, match=f"{field}: the source does not tell its version in time") as late:
            pinning.opened(field)
        assert late.value.retryable
    assert time.monotonic() - began_s < 30
    leave.set()


def test_sources_that_hang_do_not_pile_up() -> None:
    leave, pins = Event(), Pins(30)

    def hang() -> Opened:
        leave.wait(60)
        return found("late")

    first = pins.start([(str(n), hang) for n in range(MOST_AT_ONCE)])
    with pytest.raises(AdapterNotReady, match="too many"):
        pins.start([("x", hang)]).opened("x")
    leave.set()
    assert first.opened("0").identity.location == "late"


# --- access ---------------------------------------------------------------------------------------


def test_a_registered_name_whose_file_was_replaced() -> None:
    sources = Sources(Settings.model_validate({"adapter_allowed_networks": "127.0.0.0/8"}))
    with running() as server:
        source = WebFile(server.serve("/a", b"a" * 100))
        registered = prove_access(sources, source).identity
        assert prove_access(sources, source, registered).identity == registered
        server.serve("/a", b"b" * 100, headers={"ETag": '"v2"'})
        with pytest.raises(AdapterChanged, match="register it again"):
            prove_access(sources, source, registered)


# --- files ----------------------------------------------------------------------------------------


def test_files_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"weights")
    sources = Sources(Settings(adapter_folder=tmp_path))
    opened = sources.open_source("file:a")
    assert opened.identity == Identity("file:a", None, sha256_of(tmp_path / "a"))
    assert opened.read_range(2, 3) == b"igh"
    (tmp_path / "b").write_bytes(b"other weights")
    (tmp_path / "b").replace(tmp_path / "a")
    with pytest.raises(AdapterChanged):
        opened.read_range(0, 1)
    for path in ("absent", "../x", "", "a\0"):
        with pytest.raises(UnknownAdapter):
            sources.open_source(FolderFile(path))
    with pytest.raises(AdapterTooLarge):
        Sources(Settings(adapter_folder=tmp_path, adapter_largest_bytes=3)).open_source("file:a")
    with pytest.raises(UnknownAdapter, match="HOTSLOT_ADAPTER_FOLDER"):
        Sources(Settings()).open_source("file:a")
