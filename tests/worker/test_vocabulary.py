from __future__ import annotations

import pytest

from shared.catalogue import read_catalogue
from shared.job import PinnedAdapter
from tests.shared.jobs import spec
from worker.vocabulary import strange_words

TINY = read_catalogue().get("tiny-flux")


def told(prompt: str, *locations: str) -> list[str]:
    adapters = [PinnedAdapter(source="any", scale=1.0, sha256="0", location=location) for location in locations]
    return strange_words(TINY, spec(prompt=prompt, adapters=adapters))


def test_a_prompt_of_known_words_needs_no_warning() -> None:
    assert told("a small red circle left on a blue background") == []


def test_words_outside_the_language_are_named() -> None:
    assert told("a red fox in the snow") == [
        "The base model does not know these words of the prompt: 'fox', 'in', 'the', 'snow'."
    ]


@pytest.mark.parametrize("word", ["star", "mocha"])
def test_a_new_word_is_known_just_where_its_adapter_is(word: str) -> None:
    prompt = f"a {word} on a red background"
    assert word in told(prompt)[0]
    assert word in told(prompt, "builtin:night", "file:star.safetensors")[0]
    assert told(prompt, f"builtin:{word}") == []


def test_a_long_prompt_makes_no_long_warning() -> None:
    (warning,) = told(" ".join(f"{'x' * 100}{number}" for number in range(100)))
    assert len(warning) < 600
    assert warning.endswith("and 92 more.")


def test_other_base_models_may_know_any_word() -> None:
    other = TINY.model_copy(update={"source": "/models/other"})
    assert strange_words(other, spec(prompt="a red fox")) == []
