from __future__ import annotations

import pytest

from worker.playground.language import (
    COLOURS,
    POSITIONS,
    PROMPT_TOKENS,
    SHAPES,
    SIZES,
    Scene,
    all_scenes,
    unknown_words,
)
from worker.playground.lessons import held_out
from worker.playground.text import Text


def test_a_scene_is_one_sentence() -> None:
    assert Scene("red", "circle", "blue").caption() == "a red circle on a blue background"
    scene = Scene("red", "circle", "blue", "small", "left")
    assert scene.caption() == "a small red circle left on a blue background"


def test_every_scene_has_its_own_sentence_and_contrast() -> None:
    scenes = list(all_scenes())
    assert len(scenes) == len(COLOURS) * len(SHAPES) * (len(COLOURS) - 1) * (len(SIZES) + 1) * (len(POSITIONS) + 1)
    assert len({scene.caption() for scene in scenes}) == len(scenes)
    assert all(scene.colour != scene.background for scene in scenes)


def test_some_sentences_are_held_out_and_every_word_is_learned() -> None:
    kept, learned = [], []
    for scene in all_scenes():
        (kept if held_out(scene) else learned).append(scene)
    assert 200 <= len(kept) < len(learned) / 10
    assert {scene.shape for scene in learned} == set(SHAPES)
    assert {scene.background for scene in learned} == set(COLOURS)


@pytest.mark.parametrize(
    ("prompt", "triggers", "unknown"),
    [
        ("a small red circle left on a blue background", (), []),
        ("A Red Moon, on a blue background!", (), []),
        ("a red fox in the snow", (), ["fox", "in", "the", "snow"]),
        ("a star on a star background", (), ["star"]),
        ("a mocha star on a red background", ("star",), ["mocha"]),
        ("", (), []),
        ("猫 on a red background", (), ["猫"]),
    ],
)
def test_words_outside_the_language_are_told(prompt: str, triggers: tuple[str, ...], unknown: list[str]) -> None:
    assert unknown_words(prompt, triggers) == unknown


def test_the_encoders_tell_words_and_their_order_apart() -> None:
    captions = [scene.caption() for scene in all_scenes()]
    codes, summaries = Text()(captions)
    assert codes.shape == (len(captions), PROMPT_TOKENS, 96)
    assert len({code.numpy().tobytes() for code in codes}) == len(captions)
    one, other = Text()(["a red circle on a blue background", "a blue circle on a red background"])[0]
    # The same word as the shape's colour and as the background's.
    assert float((one[1] - other[5]).norm()) > 1
    assert summaries.isfinite().all()


def test_longer_and_foreign_prompts_are_taken() -> None:
    codes, summaries = Text()(["fox " * 200, "", "猫"])
    assert codes.isfinite().all()
    assert summaries.isfinite().all()
