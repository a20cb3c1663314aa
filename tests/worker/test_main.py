"""``python -m worker`` that cannot start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({}, "base_model: 'nope' is not served here; choose one of: tiny-flux."),
        ({"HOTSLOT_REDIS_URL": "foo"}, "HOTSLOT_REDIS_URL is not valid: write redis://HOST:PORT/DATABASE"),
        ({"HOTSLOT_LEASE_MS": "abc"}, "HOTSLOT_LEASE_MS is not valid: input should be a valid integer"),
    ],
)
def test_what_the_operator_must_change_is_one_sentence(setting: dict[str, str], said: str) -> None:
    command = [sys.executable, "-m", "worker", "--base-model", "nope"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | setting, capture_output=True, text=True)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
