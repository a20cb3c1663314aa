"""Brings the stack up once, where there is a Docker engine and somebody asked for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.client import Client
from tests.compose.stack import ROOT, URL, ComposeStack

ASKED = "TEST_COMPOSE"
WHEELS = "TEST_WHEELS"
"""Folder with wheels, as torch's, that are preferred to the index while the worker's image is built."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    why = reason()
    for item in items:
        if why and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=why))


def reason() -> str | None:
    """Why these tests cannot run here."""
    if not os.environ.get(ASKED):
        return "the compose stack was not brought up: run make test-compose where there is a Docker engine"
    if shutil.which("docker") is None:
        return "the compose stack was not brought up: docker is not installed"
    for words in (["docker", "info"], ["docker", "compose", "version"]):
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            return f"the compose stack was not brought up: {' '.join(words)} says: {done.stderr.strip()[:200]}"
    return None


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> ComposeStack:
    """A stack whose images are built and that does not run."""
    stack = ComposeStack()
    if wheels := os.environ.get(WHEELS):
        contexts = {"additional_contexts": {"wheels": wheels}}
        file = tmp_path_factory.mktemp("compose") / "wheels.json"
        file.write_text(json.dumps({"services": {"worker-tiny-flux": {"build": contexts}}}))
        stack.files.append(file)
    stack.compose("build")
    return stack


@pytest.fixture(scope="session")
def stack(images: ComposeStack) -> Iterator[ComposeStack]:
    """A healthy one."""
    images.compose("down", "-v", "--remove-orphans")
    try:
        images.up()
        yield images
    finally:
        (ROOT / "demo-out").mkdir(exist_ok=True)
        (ROOT / "demo-out" / "compose.log").write_text(images.compose("logs", "--no-color"))
        images.compose("down", "-v", "--remove-orphans")


@pytest.fixture
def client(stack: ComposeStack) -> Iterator[Client]:
    with Client(URL) as client:
        yield client
