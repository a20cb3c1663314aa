"""What to do when a test's service is missing: skip on a laptop, fail in CI."""

from __future__ import annotations

import os

import pytest


def need(available: bool, sentence: str) -> None:
    """Go on if ``available``; else skip, or fail where CI=true; the sentence says what to install."""
    if available:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)
