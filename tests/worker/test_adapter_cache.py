"""The cache on disk: locks, eviction, leftovers."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.errors import CacheFull
from tests.receiver import until
from worker.adapter_cache import LEFTOVER_S, AdapterCache, Held, sha256_matches

Usage = namedtuple("Usage", "total used free")


def cache_in(folder: Path, cap_bytes: int = 1 << 30, spare_bytes: int = 0) -> AdapterCache:
    return AdapterCache(folder, cap_bytes, spare_bytes)


def nothing(size_bytes: int) -> None: ...


def put(cache: AdapterCache, key: str, body: bytes) -> Held:
    with cache.part(key, nothing) as part:
        part.cut(0)
        part.append(body)
        return cache.keep(key, part)


def there(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "files").iterdir()}


def sha(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def test_what_is_kept_is_found_by_another_process_too(tmp_path: Path) -> None:
    with put(cache_in(tmp_path), "k1", b"weights") as held:
        assert held.sha256 == sha(b"weights")
        assert held.path.read_bytes() == b"weights"
    found = cache_in(tmp_path).find("k1")
    assert found is not None
    with found:
        assert (found.path, found.sha256) == (held.path, held.sha256)
    assert cache_in(tmp_path).find("k2") is None
    assert list((tmp_path / "partial").iterdir()) == []


def test_the_same_bytes_from_two_places_lie_there_once(tmp_path: Path) -> None:
    cache = cache_in(tmp_path)
    for key in ("k1", "k2"):
        put(cache, key, b"weights").close()
    assert there(tmp_path) == {sha(b"weights")}
    assert list((tmp_path / "partial").iterdir()) == []


def age(folder: Path, body: bytes, seconds: float) -> None:
    path = folder / "files" / f"{sha(body)}.safetensors"
    os.utime(path, (time.time() - seconds, time.time() - seconds))


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    cache = cache_in(tmp_path, cap_bytes=25)
    one, two, three = b"1" * 10, b"2" * 10, b"3" * 10
    put(cache, "k1", one).close()
    put(cache, "k2", two).close()
    age(tmp_path, one, 50)
    age(tmp_path, two, 100)
    put(cache, "k3", three).close()
    assert there(tmp_path) == {sha(one), sha(three)}
    assert cache.find("k2") is None
    age(tmp_path, one, 10)
    age(tmp_path, three, 100)
    found = cache.find("k3")
    assert found is not None
    found.close()
    put(cache, "k4", b"4" * 10).close()
    assert there(tmp_path) == {sha(three), sha(b"4" * 10)}, "finding is using"


def test_what_is_held_is_not_evicted(tmp_path: Path) -> None:
    cache = cache_in(tmp_path, cap_bytes=5)
    with put(cache, "k1", b"1" * 10) as first:
        age(tmp_path, b"1" * 10, 100)
        with put(cache, "k2", b"2" * 10):
            assert there(tmp_path) == {sha(b"1" * 10), sha(b"2" * 10)}
        assert first.path.read_bytes() == b"1" * 10
    put(cache, "k3", b"3" * 10).close()
    assert there(tmp_path) == {sha(b"3" * 10)}


def test_evicted_only_after_the_new_one_is_whole(tmp_path: Path) -> None:
    cache = cache_in(tmp_path, cap_bytes=15)
    put(cache, "k1", b"1" * 10).close()
    with cache.part("k2", nothing) as part:
        part.cut(0)
        cache.make_room(10)
        part.append(b"2" * 10)
        assert there(tmp_path) == {sha(b"1" * 10)}
        cache.keep("k2", part).close()
    assert there(tmp_path) == {sha(b"2" * 10)}


def test_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = cache_in(tmp_path, spare_bytes=100)
    for key in "123":
        put(cache, key, key.encode() * 10).close()
        age(tmp_path, key.encode() * 10, 100 - int(key))

    def disk(free_at_first: int) -> Callable[[Path], Usage]:
        return lambda folder: Usage(1000, 0, free_at_first + 30 - 10 * len(there(tmp_path)))

    monkeypatch.setattr(shutil, "disk_usage", disk(150))
    cache.make_room(50)
    assert len(there(tmp_path)) == 3
    monkeypatch.setattr(shutil, "disk_usage", disk(100))
    with pytest.raises(CacheFull, match="no room for 50 bytes more"):
        cache.make_room(50)
    assert len(there(tmp_path)) == 3, "nothing is evicted in vain"
    cache.make_room(15)
    assert there(tmp_path) == {sha(b"3" * 10)}


def test_one_at_a_time_has_a_part(tmp_path: Path) -> None:
    cache, seen, found = cache_in(tmp_path), [], []

    def second() -> None:
        with cache_in(tmp_path).part("k", seen.append) as part:
            found.append(part.size_bytes)

    with cache.part("k", nothing) as part:
        part.append(b"12345")
        other = Thread(target=second)
        other.start()
        until(lambda: seen)
        assert found == []
    other.join()
    assert set(seen) == {5}
    assert found == [5]


def test_a_part_that_was_taken_away_meanwhile_is_begun_anew(tmp_path: Path) -> None:
    cache, seen, sizes = cache_in(tmp_path), [], []

    def second() -> None:
        with cache.part("k", seen.append) as part:
            sizes.append(part.size_bytes)

    with cache.part("k", nothing) as part:
        part.cut(0)
        part.append(b"12345")
        other = Thread(target=second)
        other.start()
        until(lambda: seen)
        cache.keep("k", part).close()
    other.join()
    assert sizes == [0]


def test_leftovers_are_swept_and_what_is_in_use_is_not(tmp_path: Path) -> None:
    cache = cache_in(tmp_path)
    put(cache, "k1", b"1").close()
    put(cache, "k2", b"2").close()
    (tmp_path / "files" / f"{sha(b'2')}.safetensors").unlink()
    for name in ("old", "young", "locked"):
        with cache.part(name, nothing) as part:
            part.append(b"x")
        if name != "young":
            os.utime(part.path, (0, time.time() - LEFTOVER_S - 60))
    (tmp_path / "partial" / "k-another-boot.part").write_bytes(b"x")
    (tmp_path / "index" / "k9.draft").write_text("half")
    for path in (tmp_path / "index").iterdir():
        os.utime(path, (0, 0))
    with cache.part("locked", nothing):
        cache_in(tmp_path).sweep()
        left = {path.name.partition("-")[0] for path in (tmp_path / "partial").iterdir()}
    assert left == {"young", "locked"}
    assert {path.name for path in (tmp_path / "index").iterdir()} == {"k1"}


def test_a_file_of_another_length_or_other_bytes_is_not_trusted(tmp_path: Path) -> None:
    cache = cache_in(tmp_path)
    with put(cache, "k", b"weights") as held:
        assert sha256_matches(held)
        held.path.write_bytes(b"WEIGHTS")
        assert not sha256_matches(held)
    held.path.write_bytes(b"weigh")
    assert cache.find("k") is None
    assert there(tmp_path) == set()
    (tmp_path / "index" / "k").write_bytes(b"\xff")
    assert cache.find("k") is None


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 9)), max_size=30))
def test_never_above_the_cap_and_never_without_the_newest(
    tmp_path_factory: pytest.TempPathFactory, uses: list[tuple[int, int]]
) -> None:
    folder, cap_bytes, clock_s = tmp_path_factory.mktemp("cache"), 20, time.time() - 10_000
    cache, used = cache_in(folder, cap_bytes), []
    for name, length in uses:
        body = f"{name}:{length}".encode().ljust(length + 4, b".")
        found = cache.find(f"{name}-{length}")
        with found or put(cache, f"{name}-{length}", body) as held:
            assert held.path.read_bytes() == body
        clock_s += 1
        os.utime(held.path, (clock_s, clock_s))
        used = [one for one in used if one[0] != held.sha256] + [(held.sha256, len(body))]
        while sum(size for _, size in used) > cap_bytes:
            used.pop(0)
        assert there(folder) == {sha256 for sha256, _ in used}
