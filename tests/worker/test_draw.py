"""What a failing pipeline tells, and to whom."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from shared.catalogue import read_catalogue
from shared.errors import GenerationFailed
from worker.draw import draw
from worker.engine_types import Drawing
from worker.families.flux import FLUX


class Broken:
    """A pipeline whose libraries talk too much."""

    _execution_device = "cpu"

    def encode_prompt(self, *arguments: Any, **options: Any) -> Any:
        raise RuntimeError("CUDA error at /srv/models/secret, password=hunter2")


def test_a_library_s_own_words_go_to_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    drawing = Drawing("a fox", None, 64, 64, 4, 3.5, 7)
    sampling = read_catalogue().get("tiny-flux").sampling
    with caplog.at_level(logging.WARNING), pytest.raises(GenerationFailed) as failed:
        draw(Broken(), FLUX, drawing, lambda done, steps: None, sampling)
    assert "RuntimeError" in failed.value.message
    assert "hunter2" not in failed.value.message
    assert "hunter2" in caplog.text
