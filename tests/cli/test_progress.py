from __future__ import annotations

import io

import pytest
from httpx2 import ServerSentEvent
from rich.console import Console

from cli.progress import JobBar, steps_of

EVENTS = [
    ServerSentEvent("queued", "{}"),
    ServerSentEvent("running", "{}"),
    ServerSentEvent("progress", '{"step": 3, "steps": 8}'),
    ServerSentEvent("queued", '{"reason": "worker_lost"}'),
    ServerSentEvent("progress", '{"step": 1, "steps": 8}'),
    ServerSentEvent("progress", '{"step": 2, "steps": 8}'),
    ServerSentEvent("succeeded", "{}"),
]


def shown(*, terminal: bool) -> str:
    out = io.StringIO()
    with JobBar(Console(file=out, force_terminal=terminal, width=100), "ID") as bar:
        for event in EVENTS:
            bar.show(event)
    return out.getvalue()


def test_without_a_terminal_each_state_is_one_line() -> None:
    words = ["waiting", "running", "denoising", "waiting", "denoising", "succeeded"]
    assert shown(terminal=False).splitlines() == [f"ID {word}" for word in words]


def test_on_a_terminal_a_bar_moves() -> None:
    assert "2/8" in shown(terminal=True)


@pytest.mark.parametrize(
    ("event", "steps"),
    [
        (EVENTS[2], (3, 8)),
        (ServerSentEvent("running", '{"step": 3, "steps": 8}'), (0, 0)),
        (ServerSentEvent("progress", "nothing"), (0, 0)),
    ],
)
def test_steps_of_an_event(event: ServerSentEvent, steps: tuple[int, int]) -> None:
    assert steps_of(event) == steps
