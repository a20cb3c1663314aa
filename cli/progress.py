"""Shows a job's events: a moving bar on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from httpx2 import ServerSentEvent
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from cli.answers import Progress as ProgressData

WORDS = {
    "queued": "waiting",
    "running": "running",
    "progress": "denoising",
    "cancelling": "stopping at the next step",
}


class JobBar:
    """The bar of one job; a context manager whose ``show`` takes the job's events."""

    def __init__(self, console: Console, job_id: str) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("steps"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task(WORDS["queued"], total=None)
        self._job_id = job_id
        self._said = ""

    def show(self, event: ServerSentEvent) -> None:
        """Show one event."""
        word = WORDS.get(event.event, event.event)
        if not self._console.is_terminal and word != self._said:
            self._console.print(f"{self._job_id} {word}", highlight=False)
        self._said = word
        step, steps = steps_of(event)
        if event.event == "queued":
            # A job that lost its worker begins again.
            self._progress.reset(self._task, description=word)
        elif steps:
            self._progress.update(self._task, description=word, completed=step, total=steps)
        else:
            self._progress.update(self._task, description=word)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


def steps_of(event: ServerSentEvent) -> tuple[int, int]:
    """Steps done and steps in all, or zeros for an event without them."""
    if event.event != "progress":
        return 0, 0
    try:
        data = ProgressData.model_validate_json(event.data)
    except ValidationError:
        return 0, 0
    return data.step, data.steps
