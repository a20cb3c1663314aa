"""What is particular to the folder store: its files, and the signature on its links."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from shared.errors import ImageNotFound, LinkRefused, Misconfigured, StoreUnavailable
from shared.settings import Settings
from shared.storage import open_store
from shared.storage_folder import INCOMING, FolderStore, check_link, content_type_of, sign_link

ROOT = Path(__file__).parents[2]
KEY = b"a signing key for tests"
PNG = "image/png"


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "images", "https://hotslot.example/", KEY)


def query_of(link: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(link).query).items()}


def test_an_object_is_a_file_that_a_person_can_find(store: FolderStore) -> None:
    store.put("jobs/1/0.png", b"image", PNG)
    assert (store.root / "jobs/1/0.png").read_bytes() == b"image"
    assert store.path_of("jobs/1/0.png") == store.root / "jobs/1/0.png"


@pytest.mark.parametrize("key", ["jobs/1", "jobs/2/0.png", "jobs/1/0.png/x"])
def test_a_folder_or_nothing_is_no_object(store: FolderStore, key: str) -> None:
    store.put("jobs/1/0.png", b"image", PNG)
    for look in (store.path_of, store.get):
        with pytest.raises(ImageNotFound):
            look(key)
    store.delete("jobs/1/0.png/x")
    assert store.get("jobs/1/0.png") == b"image"


def test_an_object_in_the_way_of_another_is_refused(store: FolderStore) -> None:
    store.put("jobs/1", b"image", PNG)
    with pytest.raises(StoreUnavailable):
        store.put("jobs/1/0.png", b"image", PNG)
    assert list(store.list("")) == ["jobs/1"]


def test_delete_leaves_no_empty_folders(store: FolderStore) -> None:
    store.put("jobs/1/1/0.png", b"image", PNG)
    store.put("jobs/2/1/0.png", b"image", PNG)
    store.delete("jobs/1/1/0.png")
    assert sorted(path.name for path in (store.root / "jobs").iterdir()) == ["2"]


def test_a_writer_killed_in_the_middle_leaves_no_object(store: FolderStore) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; from shared import storage_folder as s\n"
        "s._move = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "s.FolderStore(Path(sys.argv[1]), '', b'').put('jobs/1/0.png', b'image', 'image/png')\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    killed = subprocess.run([sys.executable, "-c", script, str(store.root)], env=environment)
    assert killed.returncode == -9
    halves = list((store.root / INCOMING).iterdir())
    assert len(halves) == 1
    assert list(store.list("")) == []
    with pytest.raises(ImageNotFound):
        store.get("jobs/1/0.png")
    store.check()
    assert halves[0].exists(), "it could still be somebody's"
    day_before_yesterday = time.time() - 2 * 24 * 3600
    os.utime(halves[0], (day_before_yesterday, day_before_yesterday))
    store.check()
    assert not halves[0].exists()


def test_a_folder_that_cannot_be_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = FolderStore(tmp_path / "file", "", KEY)
    with pytest.raises(StoreUnavailable) as away:
        store.put("a.png", b"", PNG)
    assert away.value.retryable
    assert str(tmp_path) not in away.value.message
    with pytest.raises(Misconfigured, match="set HOTSLOT_STORE_FOLDER"):
        store.check()


def test_a_full_disk_is_no_misconfiguration(store: FolderStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreUnavailable, match="No space left"):
        store.check()
    monkeypatch.undo()
    assert list((store.root / INCOMING).iterdir()) == []


def test_a_link_passes_until_its_time_is_over(store: FolderStore) -> None:
    before_s = int(time.time())
    link = store.link("jobs/1/0.png", 60)
    assert link.startswith("https://hotslot.example/v1/files/jobs/1/0.png?")
    query = query_of(link)
    until_s = int(query["expires"])
    assert before_s + 60 <= until_s <= time.time() + 60
    check_link("jobs/1/0.png", query["expires"], query["signature"], until_s - 0.001, KEY)
    with pytest.raises(LinkRefused, match="expired"):
        check_link("jobs/1/0.png", query["expires"], query["signature"], until_s, KEY)


@given(
    key=st.one_of(st.just("jobs/1/0.png"), st.text(max_size=12)),
    expires=st.one_of(st.just("2000"), st.text(max_size=12), st.integers().map(str)),
    signature=st.one_of(st.just(sign_link("jobs/1/0.png", 2000, KEY)), st.text(max_size=12)),
    signing_key=st.sampled_from([KEY, b"another", b""]),
)
def test_only_the_signed_link_passes(key: str, expires: str, signature: str, signing_key: bytes) -> None:
    ours = (key, expires, signature, signing_key) == ("jobs/1/0.png", "2000", sign_link("jobs/1/0.png", 2000, KEY), KEY)
    try:
        check_link(key, expires, signature, 1000.0, signing_key)
    except LinkRefused:
        assert not ours
    else:
        assert ours


def test_a_configured_key_signs_alike_in_every_process_and_a_drawn_one_does_not(tmp_path: Path) -> None:
    def key_of(signing_key: SecretStr | None) -> bytes:
        store = open_store(Settings(store="folder", store_folder=tmp_path, signing_key=signing_key))
        assert isinstance(store, FolderStore)
        return store.signing_key

    assert key_of(SecretStr("sixteen letters!")) == key_of(SecretStr("sixteen letters!"))
    assert key_of(None) != key_of(None)
    assert len(key_of(None)) == 32


@pytest.mark.parametrize("short", ["", "fifteen letters"])
def test_a_signing_key_that_can_be_guessed_is_refused(tmp_path: Path, short: str) -> None:
    with pytest.raises(Misconfigured, match="HOTSLOT_SIGNING_KEY"):
        open_store(Settings(store="folder", store_folder=tmp_path, signing_key=SecretStr(short)))


def test_media_types_come_from_the_ending() -> None:
    types = {"a/0.png": PNG, "a/0.jpeg": "image/jpeg", "a/0.webp": "image/webp", "a/0.html": "application/octet-stream"}
    assert {key: content_type_of(key) for key in types} == types
