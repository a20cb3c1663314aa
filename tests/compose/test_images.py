"""What the images hold, and who runs in them."""

from __future__ import annotations

import json
import os

import pytest

from tests.compose.stack import ComposeStack, docker

SLIM, WORKER = "hotslot", "hotslot-worker"
PYTHON = os.environ.get("PYTHON_IMAGE", "python:3.11-slim")
LARGEST_BYTES = 250e6


def size_bytes(image: str) -> int:
    return int(json.loads(docker("image", "inspect", image))[0]["Size"])


@pytest.mark.parametrize("image", [SLIM, WORKER])
def test_nobody_is_root(images: ComposeStack, image: str) -> None:
    assert docker("run", "--rm", image, "id", "-u").strip() == "10001"


def test_the_slim_one_is_slim(images: ComposeStack) -> None:
    code = (
        "from importlib.util import find_spec as f; print([n for n in ('torch', 'diffusers', 'transformers') if f(n)])"
    )
    assert docker("run", "--rm", SLIM, "python", "-c", code).strip() == "[]"
    assert size_bytes(SLIM) - size_bytes(PYTHON) < LARGEST_BYTES


def test_the_worker_has_the_cpu_build_of_torch(images: ComposeStack) -> None:
    code = "import torch; print(torch.version.cuda, 2 * int(torch.ones(2).sum()))"
    assert docker("run", "--rm", WORKER, "python", "-c", code).strip() == "None 4"


@pytest.mark.parametrize("image", [SLIM, WORKER])
def test_the_command_is_there(images: ComposeStack, image: str) -> None:
    assert "demo" in docker("run", "--rm", "--read-only", image, "hotslot", "--help")
