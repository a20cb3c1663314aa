from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import InvalidRequest, RequestError, UnknownAdapter
from shared.sources.identity import Identity, is_exact
from shared.sources.source import FolderFile, HubFile, Registered, S3Object, WebFile, is_remote, parse, shown, unsigned

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("night", Registered("night")),
        ("file:mine/a.safetensors", FolderFile("mine/a.safetensors")),
        ("hf:owner/repo", HubFile("owner/repo")),
        ("hf:owner/repo@v1.0", HubFile("owner/repo", "v1.0")),
        ("hf:owner/repo@refs/pr/3", HubFile("owner/repo", "refs/pr/3")),
        ("hf:owner/repo#a b/c.safetensors", HubFile("owner/repo", None, "a b/c.safetensors")),
        (f"hf:owner/re.po@{COMMIT}#x@y#z.safetensors", HubFile("owner/re.po", COMMIT, "x@y#z.safetensors")),
        ("s3://bucket/a key/x?y", S3Object("bucket", "a key/x?y")),
        ("https://example.com/a.safetensors?download=true", WebFile("https://example.com/a.safetensors?download=true")),
        ("HTTP://example.com/a", WebFile("HTTP://example.com/a")),
    ],
)
def test_each_kind_of_source(text: str, meant: object) -> None:
    assert parse(text) == meant
    assert parse(text).text == text


@pytest.mark.parametrize(
    "text",
    [
        "hf:", "hf:owner", "hf:owner/", "hf:a/b/c", "hf:owner/repo@", "hf:owner/repo#", "hf:owner/re--po",
        "hf:../repo", "hf:owner/repo#../x.safetensors", "hf:owner/repo#/x.safetensors", "hf:owner/repo#x\0.safetensors",
        "hf:owner/repo#pytorch_lora_weights.bin", "s3:bucket/key", "s3://bucket", "s3://bucket/", "s3:///key",
        "s3://buck et/key", "s3://bucket/a\nb", "https://", "https:///x", "https://user:hunter2@example.com/x",
        "https://example.com/a b", "https://example.com/x#part", "https://[::1/x", "http:x",
    ],
)  # fmt: skip
def test_malformed_sources_are_refused_with_the_right_form(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(text, field="adapters[0].source")
    assert refused.value.message.startswith("adapters[0].source: ")
    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize("text", ["ftp://x/y", "builtin:night", "data:abc", "HF:owner/repo", "C:\\x"])
def test_other_kinds_are_refused_with_those_that_are_taken(text: str) -> None:
    with pytest.raises(UnknownAdapter, match="taken are a registered name, hf:OWNER/REPO"):
        parse(text)


@given(st.text(max_size=60), st.sampled_from(["", "hf:", "hf:o/r@", "hf:o/r#", "s3://", "https://h/", "file:"]))
def test_any_text_is_a_source_or_refused(rest: str, start: str) -> None:
    try:
        meant = parse(start + rest)
    except RequestError:
        return
    assert parse(meant.text) == meant
    assert meant.text == start + rest


@given(st.text(max_size=30), st.text(min_size=1, max_size=30))
def test_no_query_is_shown(path: str, query: str) -> None:
    text = f"https://example.com/{path}?secret={query}"
    assert "secret" not in shown(text) or "secret" in path
    assert shown(text).endswith("?…")


def test_a_source_of_another_kind_is_shown_whole() -> None:
    for text in ("what?now", "s3://b/k?x", "hf:a/b#c.safetensors", "file:a?b"):
        assert shown(text) == unsigned(text) == text
    assert shown("https://example.com/a") == shown("https://user:hunter2@example.com/a") == "https://example.com/a"


def test_a_link_signed_anew_is_the_same_place_and_another_query_is_not() -> None:
    def key(query: str) -> str:
        return Identity(f"https://h/a?{query}", 'etag:"1"', None).key

    signed = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=20260101T000000Z&X-Amz-Signature="
    assert key(signed + "abc") == key(signed + "def") == key("")
    assert len({key("id=1"), key("id=2"), key("versionId=3&" + signed), key("")}) == 4


def test_versions_that_may_hide_a_change_are_not_gone_on_with() -> None:
    assert is_exact(COMMIT)
    assert is_exact('etag:"x"')
    assert not is_exact('etag:W/"x";bytes=3')
    assert not is_exact("modified:Thu, 01 Jan 2026 00:00:00 GMT;bytes=3")


def test_what_needs_a_network() -> None:
    assert [is_remote(one) for one in ("hf:a/b", "s3://a/b", "https://a", "http://a", "file:a", "builtin:a")] == [
        True, True, True, True, False, False,
    ]  # fmt: skip
