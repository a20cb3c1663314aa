"""``hf:`` sources with the real huggingface_hub against a local hub."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from shared.errors import AdapterAmbiguous, AdapterForbidden, AdapterTooLarge, SourceUnavailable, UnknownAdapter
from shared.settings import Settings
from shared.sources.hub_offline import OfflineHub
from shared.sources.identity import Identity
from shared.sources.source import HubFile
from shared.sources.sources import Sources
from tests.hub_server import HubServer, running_hub
from tests.shared.sources.safetensors_bytes import small
from tests.source_server import running

A, B = small(b"\1"), small(b"\2")
FILE = "pytorch_lora_weights.safetensors"


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with running_hub() as hub:
        yield hub


def sources_for(hub: HubServer, **changes: Any) -> Sources:
    return Sources(Settings.model_validate({"hf_endpoint": hub.url, "hf_token": None} | changes))


def bytes_of(sources: Sources, identity: Identity, begin_bytes: int = 0) -> bytes:
    got = bytearray()
    sources.download(identity, begin_bytes, lambda size: None, got.extend)
    return bytes(got)


def test_the_only_file_is_pinned_to_its_commit(hub: HubServer) -> None:
    commit = hub.repository("owner/repo").commit({FILE: A, "README.md": b"hello", "other.bin": b"pickle"})
    opened = sources_for(hub).open_source("hf:owner/repo")
    assert opened.identity == Identity(f"hf:owner/repo@{commit}#{FILE}", commit, sha256(A).hexdigest())
    assert opened.size_bytes == len(A)
    assert opened.read_range(3, 100) == A[3:103]
    assert bytes_of(sources_for(hub), opened.identity, 7) == A[7:]


def test_a_branch_that_moves_changes_nothing_that_is_pinned(hub: HubServer) -> None:
    repository = hub.repository("owner/repo")
    repository.commit({FILE: A})
    sources = sources_for(hub)
    before = sources.open_source("hf:owner/repo").identity
    repository.commit({FILE: B})
    after = sources.open_source("hf:owner/repo").identity
    assert before.key != after.key
    assert (bytes_of(sources, before), bytes_of(sources, after)) == (A, B)
    assert sources.open_source(before.location).identity == before


def test_revisions_are_branches_tags_and_commits(hub: HubServer) -> None:
    repository = hub.repository("owner/repo")
    first = repository.commit({FILE: A})
    second = repository.commit({FILE: B}, branch="refs/pr/3")
    sources = sources_for(hub)
    for revision, commit in ((first, first), ("main", first), ("refs/pr/3", second)):
        assert sources.open_source(f"hf:owner/repo@{revision}").identity.revision == commit
    with pytest.raises(UnknownAdapter, match="no revision v9"):
        sources.open_source("hf:owner/repo@v9")


def test_several_files_are_listed_and_one_of_them_is_named(hub: HubServer) -> None:
    hub.repository("owner/repo").commit({"a.safetensors": A, "sub folder/b.safetensors": B})
    sources = sources_for(hub)
    with pytest.raises(AdapterAmbiguous) as refused:
        sources.open_source("hf:owner/repo", field="adapters[0].source")
    assert "hf:owner/repo#a.safetensors: a.safetensors, sub folder/b.safetensors" in refused.value.message
    opened = sources.open_source("hf:owner/repo#sub folder/b.safetensors")
    assert bytes_of(sources, opened.identity) == B
    with pytest.raises(UnknownAdapter, match=r"has no file c\.safetensors; it has: a\.safetensors"):
        sources.open_source("hf:owner/repo#c.safetensors")


def test_a_long_list_is_cut(hub: HubServer) -> None:
    hub.repository("owner/repo").commit({f"{n:03}.safetensors": A for n in range(25)})
    with pytest.raises(AdapterAmbiguous, match=r"019\.safetensors and 5 more"):
        sources_for(hub).open_source("hf:owner/repo")


def test_repositories_that_cannot_be_used(hub: HubServer) -> None:
    hub.repository("owner/pickles").commit({"pytorch_model.bin": A})
    hub.repository("owner/gated", gated=True).commit({FILE: A})
    sources = sources_for(hub)
    with pytest.raises(UnknownAdapter, match=r"no \.safetensors file"):
        sources.open_source("hf:owner/pickles")
    with pytest.raises(AdapterForbidden, match="gated"):
        sources.open_source("hf:owner/gated")
    with pytest.raises(UnknownAdapter, match="does not exist, or is private"):
        sources.open_source("hf:owner/absent")


def test_large_files_come_from_elsewhere_and_the_token_stays(hub: HubServer) -> None:
    with running() as cdn:
        hub.cdn = cdn
        hub.repository("owner/private", token="hunter2").commit({FILE: A})
        sources = sources_for(hub, hf_token="hunter2", adapter_allowed_networks=[ip_network("127.0.0.0/8")])
        assert bytes_of(sources, sources.open_source("hf:owner/private").identity, 5) == A[5:]
        assert {one.headers["authorization"] for one in hub.asked} == {"Bearer hunter2"}
        assert [one.headers.get("authorization") for one in cdn.asked] == [None]


def test_without_its_token_a_private_repository_is_not_there(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hunter2")
    hub.repository("owner/private", token="hunter2").commit({FILE: A})
    with pytest.raises(UnknownAdapter):
        sources_for(hub).open_source("hf:owner/private")
    assert Settings().hf_token is not None


def test_a_right_that_is_taken_back_is_refused(hub: HubServer) -> None:
    repository = hub.repository("owner/repo")
    repository.commit({FILE: A})
    sources = sources_for(hub)
    opened = sources.open_source("hf:owner/repo")
    repository.token = "somebody else's"
    with pytest.raises(UnknownAdapter):
        sources.open_source(opened.identity.location)
    with pytest.raises(AdapterForbidden):
        bytes_of(sources, opened.identity)


def test_sizes_above_the_limit(hub: HubServer) -> None:
    hub.repository("owner/repo").commit({FILE: A})
    with pytest.raises(AdapterTooLarge):
        sources_for(hub, adapter_largest_bytes=100).open_source("hf:owner/repo")


def test_files_that_the_hub_tells_no_hash_of(hub: HubServer) -> None:
    hub.repository("owner/repo", plain=True).commit({FILE: A})
    assert sources_for(hub).open_source("hf:owner/repo").sha256 is None


def test_a_hub_that_is_away(unused_port: int) -> None:
    with pytest.raises(SourceUnavailable, match="the hub is not reached"):
        Sources(Settings(hf_endpoint=f"http://127.0.0.1:{unused_port}")).open_source("hf:owner/repo")


def test_a_hub_that_is_broken() -> None:
    with running() as broken:
        broken.serve("/api/models/owner/repo", b"", status=502)
        with pytest.raises(SourceUnavailable, match="502"):
            Sources(Settings(hf_endpoint=broken.url)).open_source("hf:owner/repo")
        broken.serve("/api/models/owner/repo", b"not json")
        with pytest.raises(SourceUnavailable):
            Sources(Settings(hf_endpoint=broken.url)).open_source("hf:owner/repo")


# --- offline --------------------------------------------------------------------------------------

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache as huggingface_hub itself fills it."""
    folder = tmp_path / "hub" / "models--owner--repo"
    blob = folder / "blobs" / sha256(A).hexdigest()
    snapshot = folder / "snapshots" / COMMIT
    for each in (blob.parent, snapshot, folder / "refs"):
        each.mkdir(parents=True)
    blob.write_bytes(A)
    (snapshot / FILE).symlink_to(blob)
    (folder / "refs" / "main").write_text(COMMIT)
    return tmp_path / "hub"


def test_offline_the_hubs_own_cache_is_read(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    settings = Settings(hf_endpoint="http://127.0.0.1:1")
    assert settings.hf_offline
    sources = Sources(settings)
    for text in ("hf:owner/repo", f"hf:owner/repo@{COMMIT}#{FILE}"):
        opened = sources.open_source(text)
        assert opened.identity == Identity(f"hf:owner/repo@{COMMIT}#{FILE}", COMMIT, sha256(A).hexdigest())
        assert opened.read_range(1, 5) == A[1:6]
        assert bytes_of(sources, opened.identity, 9) == A[9:]


@pytest.mark.parametrize(
    "source",
    [
        HubFile("owner/absent"), HubFile("owner/repo", "v2"), HubFile("owner/repo", "../refs/main"),
        HubFile("owner/repo", None, "absent.safetensors"), HubFile("owner/repo", "a/../../x"),
    ],
)  # fmt: skip
def test_offline_what_is_not_in_the_cache_is_named(cache: Path, source: HubFile) -> None:
    with pytest.raises(UnknownAdapter):
        OfflineHub(1 << 30, cache).open(source, 5)


def test_offline_a_link_out_of_the_cache_is_not_followed(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.safetensors").write_bytes(B)
    snapshot = cache / "models--owner--repo" / "snapshots" / COMMIT
    (snapshot / "out.safetensors").symlink_to(tmp_path / "secret.safetensors")
    with pytest.raises(UnknownAdapter):
        OfflineHub(1 << 30, cache).open(HubFile("owner/repo", COMMIT, "out.safetensors"), 5)


def test_online_and_offline_name_the_same_bytes(hub: HubServer, cache: Path) -> None:
    repository = hub.repository("owner/repo")
    repository.commits[COMMIT], repository.branches["main"] = {FILE: A}, COMMIT
    offline = OfflineHub(1 << 30, cache).open(HubFile("owner/repo"), 5).identity
    assert offline == sources_for(hub).open_source("hf:owner/repo").identity
