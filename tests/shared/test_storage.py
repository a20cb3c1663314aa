"""What every store promises: the same tests on the folder and on a real S3 server."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import ImageNotFound, InvalidRequest
from shared.storage import Store, check_key

PNG = "image/png"
LONG_S = 3600


@pytest.fixture
def here() -> str:
    """A prefix of this test's own."""
    return f"jobs/{uuid4().hex}"


def test_what_was_put_is_read_back(store: Store, here: str) -> None:
    bodies = {f"{here}/{size}.png": bytes(size % 251 for _ in range(1)) * size for size in (0, 1, 70_000, 5_000_000)}
    for key, body in bodies.items():
        store.put(key, body, PNG)
    for key, body in bodies.items():
        assert store.get(key) == body


def test_a_second_put_replaces(store: Store, here: str) -> None:
    store.put(f"{here}/0.png", b"first, and longer", PNG)
    store.put(f"{here}/0.png", b"second", PNG)
    assert store.get(f"{here}/0.png") == b"second"


def test_an_absent_object(store: Store, here: str) -> None:
    with pytest.raises(ImageNotFound):
        store.get(f"{here}/none.png")
    store.delete(f"{here}/none.png")
    assert list(store.list(here)) == []


def test_delete_takes_one_object_only(store: Store, here: str) -> None:
    store.put(f"{here}/1/0.png", b"0", PNG)
    store.put(f"{here}/1/1.png", b"1", PNG)
    store.delete(f"{here}/1/0.png")
    with pytest.raises(ImageNotFound):
        store.get(f"{here}/1/0.png")
    assert list(store.list(here)) == [f"{here}/1/1.png"]
    store.delete(f"{here}/1/1.png")
    assert list(store.list(here)) == []
    store.put(f"{here}/1/0.png", b"again", PNG)
    assert store.get(f"{here}/1/0.png") == b"again"


def test_list_by_prefix(store: Store, here: str) -> None:
    keys = [f"{here}/a1/0.png", f"{here}/a1/1.png", f"{here}/a2/0.png", f"{here}/b/0.png"]
    for key in keys:
        store.put(key, b"x", PNG)
    assert sorted(store.list(f"{here}/")) == keys
    assert sorted(store.list(f"{here}/a")) == keys[:3]
    assert sorted(store.list(f"{here}/a1/")) == keys[:2]
    assert list(store.list(keys[3])) == keys[3:]
    assert set(keys) <= set(store.list(""))


BAD_KEYS = [
    "",
    "/a",
    "a/",
    "a//b",
    "../a",
    "a/../b",
    "a/./b",
    "..",
    "a b",
    "猫.png",
    "a\nb",
    "a\\b",
    "a%2fb",
    "~incoming/a",
]


@pytest.mark.parametrize("key", [*BAD_KEYS, "a" * 256, "a/" * 300 + "a"])
def test_keys_that_no_store_takes(store: Store, key: str) -> None:
    with pytest.raises(InvalidRequest):
        store.put(key, b"", PNG)
    with pytest.raises(InvalidRequest):
        store.get(key)
    with pytest.raises(InvalidRequest):
        store.delete(key)
    with pytest.raises(InvalidRequest):
        store.link(key, LONG_S)


@given(st.text(alphabet="aZ9._-/~ \n\0é", max_size=20))
def test_a_key_that_is_taken_is_a_plain_path(key: str) -> None:
    try:
        check_key(key)
    except InvalidRequest:
        return
    parts = key.split("/")
    assert all(part not in {"", ".", ".."} for part in parts)
    assert set(key) <= set("aZ9._-/")


def test_a_reader_never_sees_half_an_object(store: Store, here: str) -> None:
    key, bodies = f"{here}/0.png", [b"a" * 300_000, b"b" * 400_000]
    store.put(key, bodies[0], PNG)

    def write() -> None:
        for turn in range(30):
            store.put(key, bodies[turn % 2], PNG)

    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(write)
        while not writer.done():
            assert store.get(key) in bodies
        writer.result()


def test_many_threads_use_one_store(store: Store, here: str) -> None:
    def work(thread: int) -> None:
        for turn in range(10):
            key, body = f"{here}/{thread}/{turn}.png", f"{thread} {turn}".encode() * 1000
            store.put(key, body, PNG)
            assert store.get(key) == body
            if turn % 2:
                store.delete(key)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(list(store.list(here))) == 8 * 5


def test_a_link_reads_the_object_without_credentials(store: Store, here: str) -> None:
    key, body = f"{here}/0.png", b"\x89PNG and so on"
    link = store.link(key, LONG_S, PNG)
    store.put(key, body, PNG)
    answer = httpx2.get(link)
    assert (answer.status_code, answer.content) == (200, body)
    assert answer.headers["content-type"] == PNG


def test_a_changed_link_is_refused(store: Store, here: str) -> None:
    for name in ("0", "1"):
        store.put(f"{here}/{name}.png", b"secret", PNG)
    link = store.link(f"{here}/0.png", LONG_S)
    assert httpx2.get(link).status_code == 200
    last = link[-1]
    others = [
        link.replace("/0.png", "/1.png"),
        link[:-1] + ("0" if last != "0" else "1"),
        link.partition("?")[0],
        link.replace("xpires=", "xpires=9"),
    ]
    for other in others:
        assert httpx2.get(other).status_code in {400, 403}, other


def test_a_link_ends(store: Store, here: str) -> None:
    store.put(f"{here}/0.png", b"secret", PNG)
    link = store.link(f"{here}/0.png", 1)
    time.sleep(2.1)
    assert httpx2.get(link).status_code == 403


def test_a_link_to_nothing(store: Store, here: str) -> None:
    assert httpx2.get(store.link(f"{here}/none.png", LONG_S)).status_code == 404


def test_check_passes_and_leaves_nothing(store: Store) -> None:
    store.check()
    assert list(store.list("check/")) == []
