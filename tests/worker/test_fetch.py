"""Fetching adapters from real servers: once, resumed, verified, after kills."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from shared.adapters.header import read_header
from shared.adapters.source import ranges_of
from shared.errors import (
    AdapterChanged,
    AdapterTooLarge,
    AdapterUnreadable,
    CacheFull,
    HotslotError,
    Misconfigured,
    SourceUnavailable,
)
from shared.settings import Settings
from shared.sources.identity import Identity
from shared.sources.sources import Sources
from tests.hub_server import running_hub
from tests.receiver import until
from tests.shared.sources.safetensors_bytes import small
from tests.source_server import SourceServer, running
from worker.adapter_cache import POLL_S, AdapterCache, Held
from worker.fetch import Fetcher

BODY = small(bytes(range(251)), 2000)


@pytest.fixture
def server() -> Iterator[SourceServer]:
    with running() as server:
        yield server


def settings_for(folder: Path, **changes: Any) -> Settings:
    return Settings.model_validate({"cache_folder": folder, "adapter_allowed_networks": "127.0.0.0/8"} | changes)


def fetcher_for(folder: Path, **changes: Any) -> Fetcher:
    settings = settings_for(folder, **changes)
    cache = AdapterCache(settings.fetched_folder, settings.adapter_cache_bytes, 0)
    return Fetcher(Sources(settings), cache, settings.adapter_fetch_budget_s, pause_s=0.01)


def pinned(folder: Path, url: str) -> Identity:
    return Sources(settings_for(folder)).open_source(url).identity


def parts(folder: Path) -> list[Path]:
    return list((folder / "adapter-cache" / "partial").iterdir())


def fetched(server: SourceServer) -> int:
    """Requests for more than the beginning."""
    return sum(not one.headers.get("range", "").startswith("bytes=0-") for one in server.asked)


def test_fetched_once_and_found_after_a_restart(server: SourceServer, tmp_path: Path) -> None:
    identity = pinned(tmp_path, server.serve("/a", BODY))
    with fetcher_for(tmp_path).fetch(identity) as held:
        assert held.sha256 == hashlib.sha256(BODY).hexdigest()
        assert held.path.read_bytes() == BODY
    with fetcher_for(tmp_path).fetch(identity) as again:
        assert again.path == held.path
    assert fetched(server) == 1
    assert parts(tmp_path) == []


def test_two_jobs_that_need_the_same_cold_adapter_download_it_once(server: SourceServer, tmp_path: Path) -> None:
    identity = pinned(tmp_path, server.serve("/a", BODY, chunk_pause_s=0.005))
    fetcher, held, progress = fetcher_for(tmp_path), list[Held](), list[int]()
    threads = [
        Thread(target=lambda: held.append(fetcher.fetch(identity, lambda: progress.append(1)))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one.sha256 for one in held} == {hashlib.sha256(BODY).hexdigest()}
    assert fetched(server) == 1
    assert progress
    for one in held:
        one.close()


def test_whoever_waits_is_never_between_the_part_and_its_entry(
    server: SourceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = pinned(tmp_path, server.serve("/a", BODY))
    write = AdapterCache._write

    def write_late(cache: AdapterCache, key: str, text: str) -> None:
        time.sleep(4 * POLL_S)
        write(cache, key, text)

    monkeypatch.setattr(AdapterCache, "_write", write_late)
    fetchers = [fetcher_for(tmp_path) for _ in range(2)]
    threads = [Thread(target=lambda fetcher=fetcher: fetcher.fetch(identity).close()) for fetcher in fetchers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fetched(server) == 1


def fetch_elsewhere(folder: Path, identity: Identity) -> None:
    with fetcher_for(folder).fetch(identity) as held:
        os._exit(0 if hashlib.sha256(held.path.read_bytes()).hexdigest() == held.sha256 else 1)


def test_also_two_processes_download_it_once(server: SourceServer, tmp_path: Path) -> None:
    identity = pinned(tmp_path, server.serve("/a", BODY, chunk_pause_s=0.02))
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=fetch_elsewhere, args=(tmp_path, identity)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert fetched(server) == 1


def test_a_truncated_download_is_gone_on_with(server: SourceServer, tmp_path: Path) -> None:
    identity = pinned(tmp_path, server.serve("/a", BODY))
    server.files["/a"].cuts = [100_000, 200_000, 1]
    with fetcher_for(tmp_path).fetch(identity) as held:
        assert held.path.read_bytes() == BODY
    begins = [one.headers.get("range") for one in server.asked[1:]]
    assert begins[0] is None
    assert begins[1] == "bytes=100000-"
    assert len(begins) == 4
    assert server.sent_bytes < len(BODY) + 100_000


def test_without_an_exact_version_it_is_begun_anew(server: SourceServer, tmp_path: Path) -> None:
    identity = pinned(tmp_path, server.serve("/a", BODY, headers={"Last-Modified": "then"}))
    server.files["/a"].cuts = [100_000]
    with fetcher_for(tmp_path).fetch(identity) as held:
        assert held.path.read_bytes() == BODY
    assert [one.headers.get("range") for one in server.asked[1:]] == [None, None]


def test_a_source_that_brings_nothing_is_left_and_gone_on_with_later(server: SourceServer, tmp_path: Path) -> None:
    identity = pinned(tmp_path, server.serve("/a", BODY))
    server.files["/a"].cuts = [100_000, 0, 0, 0]
    with pytest.raises(SourceUnavailable) as failed:
        fetcher_for(tmp_path).fetch(identity)
    assert failed.value.retryable
    server.files["/a"].cuts = []
    with fetcher_for(tmp_path).fetch(identity) as held:
        assert held.path.read_bytes() == BODY
    assert server.asked[-1].headers["range"] == "bytes=99999-"


def test_a_file_that_was_replaced_while_the_job_waited(server: SourceServer, tmp_path: Path) -> None:
    identity = pinned(tmp_path, server.serve("/a", BODY))
    server.serve("/a", BODY[::-1], headers={"ETag": '"v2"'})
    with pytest.raises(AdapterChanged, match="no longer the one that the job was admitted with"):
        fetcher_for(tmp_path).fetch(identity)
    assert fetcher_for(tmp_path)._cache.find(identity.key) is None


def test_a_file_that_was_replaced_amid_the_download(server: SourceServer, tmp_path: Path) -> None:
    identity = pinned(tmp_path, server.serve("/a", BODY))
    server.files["/a"].cuts = [100_000]

    def replace() -> None:
        server.serve("/a", BODY[::-1], headers={"ETag": '"v2"'})

    with pytest.raises(AdapterChanged):
        fetcher_for(tmp_path).fetch(identity, replace)


def test_bytes_that_do_not_have_the_promised_hash_are_not_kept(server: SourceServer, tmp_path: Path) -> None:
    url = server.serve("/a", BODY)
    claimed = Identity(url, 'etag:"v1"', hashlib.sha256(b"somebody else's").hexdigest())
    with pytest.raises(AdapterChanged):
        fetcher_for(tmp_path).fetch(claimed)
    assert parts(tmp_path) == []
    assert list((tmp_path / "adapter-cache" / "files").iterdir()) == []


def test_a_claimed_hash_opens_no_other_file_of_the_cache(server: SourceServer, tmp_path: Path) -> None:
    """Who claims the hash of a private adapter that is warm here must still bring its bytes."""
    private = pinned(tmp_path, server.serve("/private", BODY))
    fetcher = fetcher_for(tmp_path)
    with fetcher.fetch(private) as held:
        claimed = Identity(server.serve("/mine", small(b"\7", 500)), 'etag:"v1"', held.sha256)
        with pytest.raises(AdapterChanged):
            fetcher.fetch(claimed)


def test_a_part_that_is_wrong_is_fetched_anew(server: SourceServer, tmp_path: Path) -> None:
    url = server.serve("/a", BODY)
    identity = Identity(url, 'etag:"v1"', hashlib.sha256(BODY).hexdigest())
    fetcher = fetcher_for(tmp_path)
    with fetcher._cache.part(identity.key, lambda size: None) as part:
        part.append(b"garbage" * 100)
    with fetcher.fetch(identity) as held:
        assert held.path.read_bytes() == BODY


def test_a_cached_file_that_went_bad_is_dropped(server: SourceServer, tmp_path: Path) -> None:
    identity, fetcher = pinned(tmp_path, server.serve("/a", BODY)), fetcher_for(tmp_path)
    with fetcher.fetch(identity) as held:
        assert not fetcher.drop_damaged(held)
        held.path.write_bytes(BODY[::-1])
        assert fetcher.drop_damaged(held)
    with fetcher.fetch(identity) as held:
        assert held.path.read_bytes() == BODY


def test_a_file_that_grew_above_the_limit_is_not_read(server: SourceServer, tmp_path: Path) -> None:
    identity = pinned(tmp_path, server.serve("/a", BODY))
    with pytest.raises(AdapterTooLarge):
        fetcher_for(tmp_path, adapter_largest_bytes=1000).fetch(identity)


def test_a_disk_that_is_full(server: SourceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity, fetcher = pinned(tmp_path, server.serve("/a", BODY)), fetcher_for(tmp_path)
    monkeypatch.setattr(fetcher._cache, "_spare_bytes", 1 << 62)
    with pytest.raises(CacheFull):
        fetcher.fetch(identity)


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Misconfigured, match="cannot be used"):
        Fetcher.of(Settings(adapter_cache_folder=tmp_path / "file" / "x"))


def test_what_progress_raises_passes_through_and_the_part_stays(server: SourceServer, tmp_path: Path) -> None:
    identity = pinned(tmp_path, server.serve("/a", BODY))

    class Cancelled(Exception):
        pass

    def cancel() -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        fetcher_for(tmp_path).fetch(identity, cancel)
    assert parts(tmp_path)[0].stat().st_size > 0
    with fetcher_for(tmp_path).fetch(identity) as held:
        assert held.path.read_bytes() == BODY


def test_whoever_waits_for_a_stalled_one_gives_up(
    server: SourceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.fetch.STALLED_S", 0.2)
    identity, fetcher = pinned(tmp_path, server.serve("/a", BODY)), fetcher_for(tmp_path)
    with fetcher._cache.part(identity.key, lambda size: None), pytest.raises(SourceUnavailable, match="no further"):
        fetcher.fetch(identity)


@pytest.mark.parametrize(
    "body", [b"<html>sign in</html>", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", BODY[:-1]]
)
def test_what_is_no_adapter_is_fetched_and_refused_by_the_header(
    server: SourceServer, tmp_path: Path, body: bytes
) -> None:
    identity = pinned(tmp_path, server.serve("/a", body))
    with (
        fetcher_for(tmp_path).fetch(identity) as held,
        held.path.open("rb") as file,
        pytest.raises(AdapterUnreadable),
    ):
        read_header(ranges_of(file), len(body))


def test_a_branch_that_moves_while_a_job_waits(tmp_path: Path) -> None:
    with running_hub() as hub:
        repository = hub.repository("owner/repo")
        commit = repository.commit({"a.safetensors": BODY})
        changes = {"hf_endpoint": hub.url, "hf_token": None}
        identity = Sources(settings_for(tmp_path, **changes)).open_source("hf:owner/repo").identity
        repository.commit({"a.safetensors": small(b"\7", 500)})
        with fetcher_for(tmp_path, **changes).fetch(identity) as held:
            assert held.path.read_bytes() == BODY
        assert identity.revision == commit


# --- kills ----------------------------------------------------------------------------------------

PROGRAM = """
import sys
from pathlib import Path
from shared.sources.identity import Identity
from tests.worker.test_fetch import fetcher_for
fetcher = fetcher_for(Path(sys.argv[1]))
with fetcher.fetch(Identity(sys.argv[2], sys.argv[3], None)) as held:
    print(held.sha256, flush=True)
"""


@pytest.mark.parametrize("after_bytes", [0, 70_000, 300_000, len(BODY) - 1])
def test_killed_at_any_moment(server: SourceServer, tmp_path: Path, after_bytes: int) -> None:
    url = server.serve("/a", BODY, chunk_pause_s=0.02)
    before = server.sent_bytes
    killed = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path), url, 'etag:"v1"'])
    until(lambda: server.sent_bytes - before >= after_bytes and server.asked)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    left = sum(path.stat().st_size for path in parts(tmp_path))
    server.files["/a"].chunk_pause_s, before = 0.0, server.sent_bytes
    with fetcher_for(tmp_path).fetch(Identity(url, 'etag:"v1"', None)) as held:
        assert held.sha256 == hashlib.sha256(BODY).hexdigest()
        assert held.path.read_bytes() == BODY
    if left:
        assert server.asked[-1].headers["range"] == f"bytes={left - 1}-"
    assert parts(tmp_path) == []


def test_many_at_once_in_a_cache_that_is_too_small(server: SourceServer, tmp_path: Path) -> None:
    """Threads with caches of their own, as processes have, evict under each other's hands."""
    bodies = {f"/{n}": small(bytes([n]), 1000) for n in range(6)}
    identities = {path: pinned(tmp_path, server.serve(path, body)) for path, body in bodies.items()}
    wrong: list[str] = []

    def work(seed: int) -> None:
        fetcher = fetcher_for(tmp_path, adapter_cache_bytes=2500)
        for step in range(15):
            path = f"/{(seed * 7 + step * (seed + 1)) % 6}"
            try:
                with fetcher.fetch(identities[path]) as held:
                    if held.path.read_bytes() != bodies[path]:
                        wrong.append(path)
            except (HotslotError, OSError) as error:
                wrong.append(f"{path}: {error}")

    threads = [Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
