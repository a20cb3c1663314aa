from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.adapter_words import TypedAdapter, read_adapter
from shared.errors import InvalidRequest


@pytest.mark.parametrize(
    ("word", "source", "scale"),
    [
        ("night", "night", 1.0),
        ("night:0.8", "night", 0.8),
        ("night:-1", "night", -1.0),
        ("night:.5", "night", 0.5),
        ("night:1e-1", "night", 0.1),
        ("file:a/b.safetensors", "file:a/b.safetensors", 1.0),
        ("file:a/b.safetensors:0.8", "file:a/b.safetensors", 0.8),
        ("file:7", "file:7", 1.0),
        ("file:a:7", "file:a", 7.0),
        ("hf:owner/repo", "hf:owner/repo", 1.0),
        ("hf:owner/repo@main#x.safetensors:2", "hf:owner/repo@main#x.safetensors", 2.0),
        ("s3://bucket/key:0.25", "s3://bucket/key", 0.25),
        ("https://host:8443/a.safetensors", "https://host:8443/a.safetensors", 1.0),
    ],
)
def test_only_a_number_at_the_end_is_a_strength(word: str, source: str, scale: float) -> None:
    assert read_adapter(word) == TypedAdapter(source, scale)


# Python reads some of these as numbers; nobody means them as a strength.
@pytest.mark.parametrize("strength", ["abc", "", "0,8", "nan", "inf", "1_0", "b:0.5"])
def test_what_is_no_strength_is_said_so(strength: str) -> None:
    with pytest.raises(InvalidRequest, match=f"'{strength}' is not a strength; write NAME:SCALE"):
        read_adapter(f"night:{strength}")


@pytest.mark.parametrize("word", ["", ":0.5", " night", "night :1"])
def test_a_word_without_a_name_is_refused(word: str) -> None:
    with pytest.raises(InvalidRequest, match="NAME:SCALE"):
        read_adapter(word)


@given(
    st.from_regex(r"(file:)?[a-z][a-z/.]{0,20}", fullmatch=True).filter(lambda source: source != "file"),
    st.floats(-10, 10).map(lambda scale: float(f"{scale:g}")),
)
def test_what_is_shown_reads_back(source: str, scale: float) -> None:
    adapter = TypedAdapter(source, scale)
    assert read_adapter(str(adapter)) == adapter
