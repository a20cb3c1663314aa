"""The judge is judged first: on pictures whose content is known it must never be wrong."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bench.look import STYLES, TEMPLATES, look
from worker.playground.language import COLOURS, NEW_COLOUR, NEW_SHAPE, SHAPES, Scene
from worker.playground.sampling import random_scene
from worker.playground.shapes import place_of
from worker.playground.styles import styled

COUNT = 40


def scenes() -> list[Scene]:
    generator = torch.Generator().manual_seed(1)
    return [random_scene(generator, (*SHAPES, NEW_SHAPE), (*COLOURS, NEW_COLOUR)) for _ in range(COUNT)]


def pictures(style: str | None) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    drawn = scenes()
    return styled(drawn, [place_of(scene, generator) for scene in drawn], style)


def test_it_knows_every_shape_and_colour() -> None:
    for scene, picture in zip(scenes(), pictures(None), strict=True):
        seen = look(picture)
        assert (seen.colour, seen.shape, seen.background) == (scene.colour, scene.shape, scene.background)
        assert seen.overlap > 0.9


def test_noise_does_not_mislead_it() -> None:
    noise = 0.04 * torch.randn(COUNT, 3, 128, 128, generator=torch.Generator().manual_seed(3))
    for scene, picture in zip(scenes(), (pictures(None) + noise).clamp(0, 1), strict=True):
        seen = look(picture)
        assert (seen.colour, seen.shape, seen.background) == (scene.colour, scene.shape, scene.background)


def test_a_blob_and_an_empty_picture_are_no_shapes_that_were_asked_for() -> None:
    flat = torch.full((3, 128, 128), 0.5)
    assert look(flat).shape == "nothing"
    assert not any(shows(flat) for shows in STYLES.values())
    assert {*SHAPES, NEW_SHAPE} == set(TEMPLATES)


@pytest.mark.parametrize("style", [None, *STYLES])
def test_each_mark_is_seen_where_it_is_and_nowhere_else(style: str | None) -> None:
    for picture in pictures(style):
        assert {name for name, shows in STYLES.items() if shows(picture)} == ({style} if style else set())
