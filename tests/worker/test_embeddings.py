"""Which encoded prompts are kept."""

from __future__ import annotations

import torch

from worker.embeddings import Embeddings
from worker.stages.encode import Encoded


def encoded(count_bytes: int) -> Encoded:
    return Encoded({"prompt_embeds": torch.zeros(count_bytes, dtype=torch.uint8)}, ())


def test_what_was_not_used_for_longest_goes_first() -> None:
    kept = Embeddings(100)
    one, two, three = encoded(40), encoded(40), encoded(40)
    kept.put("one", one)
    kept.put("two", two)
    assert kept.get("one") is one
    kept.put("three", three)
    assert kept.get("two") is None
    assert (kept.get("one"), kept.get("three")) == (one, three)


def test_what_is_larger_than_the_cap_is_not_kept() -> None:
    kept = Embeddings(100)
    kept.put("small", encoded(100))
    kept.put("large", encoded(101))
    assert kept.get("large") is None
    assert kept.get("small") is not None


def test_what_is_put_again_takes_its_place_once() -> None:
    kept = Embeddings(100)
    for _ in range(5):
        kept.put("same", encoded(60))
    kept.put("other", encoded(40))
    assert len(kept) == 2
