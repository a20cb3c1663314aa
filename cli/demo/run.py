"""``hotslot demo``: start a stack, run the plan, stop the stack, compare with fresh pipelines, report."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from cli.client import Client
from cli.demo.checks import faults, order_faults, webhook_verified
from cli.demo.jobs import run_jobs
from cli.demo.outcome import Outcome
from cli.demo.plan import BASE_MODEL, JOBS
from cli.demo.receiver import running_receiver
from cli.demo.references import compare
from cli.demo.report import REPORT, SHEET, report_of, table_of, write_report, write_sheet
from cli.environment import without_settings
from cli.interrupts import Interrupts
from cli.log_lines import FileLog
from cli.readiness import await_ready
from cli.stack import Stack, StackPlan, free_port
from shared.errors import Misconfigured
from shared.settings import PREFIX, Settings

MOST_DEATHS = 3
WEBHOOK_WORDS = {True: "verified", False: "NOT verified", None: "not asked for"}


@dataclass(frozen=True)
class Folders:
    """Where the demo writes, below the folder that the user chose."""

    out: Path

    @property
    def images(self) -> Path:
        """The jobs' images."""
        return self.out / "images"

    @property
    def references(self) -> Path:
        """What fresh pipelines drew of some of the jobs."""
        return self.out / "references"

    @property
    def logs(self) -> Path:
        """A file per process."""
        return self.out / "logs"

    def prepare(self) -> None:
        """Make them, and take away results that an earlier run left. Raises Misconfigured."""
        try:
            for folder in (self.images, self.references, self.logs):
                folder.mkdir(parents=True, exist_ok=True)
            stale = [*self.images.glob("*.png"), *self.references.glob("*.png"), *self.logs.glob("*.log")]
            for old in (*stale, self.out / SHEET, self.out / REPORT):
                old.unlink(missing_ok=True)
        except OSError as error:
            raise Misconfigured(f"The demo cannot write to {self.out}: {error.strerror}.") from error


def demo(out: Path, console: Console) -> int:
    """Run the demo; returns the exit status: 0 only if everything was as it must be. Raises SetupError."""
    started_s = time.monotonic()
    folders = Folders(out)
    folders.prepare()
    with Interrupts() as interrupts, closing(FileLog(folders.logs)) as log:
        try:
            outcome = _drawn(folders, log, interrupts, console)
            with interrupts.raising(), console.status("comparing with fresh pipelines …"):
                comparison = compare(outcome, folders.references, without_settings(os.environ), log)
        except KeyboardInterrupt:
            console.print("stopped")
            return interrupts.exit_status
    found = faults(outcome) + order_faults(outcome) + list(comparison.faults)
    return conclude(outcome, comparison.words, found, folders, time.monotonic() - started_s, console)


def plan_demo(data_folder: Path) -> StackPlan:
    """A stack on free ports with its data in a folder of its own; it shares nothing with the user's own Hotslot."""
    return StackPlan(
        data_folder=data_folder,
        port=free_port(),
        base_models=(BASE_MODEL,),
        environment=without_settings(os.environ)
        | {
            f"{PREFIX}CACHE_FOLDER": str(data_folder / "cache"),
            # Swaps of the bundled model are almost free, so that hardly any are worth saving: but the demo shows how.
            f"{PREFIX}PAYBACK": "10000",
        },
        given=frozenset(),
        stop_grace_s=Settings.model_fields["stop_grace_s"].default,
        most_deaths=MOST_DEATHS,
    )


def _drawn(folders: Folders, log: FileLog, interrupts: Interrupts, console: Console) -> Outcome:
    """Run the jobs on a stack that is gone when this returns."""
    with TemporaryDirectory(prefix="hotslot-demo-") as data:
        plan = plan_demo(Path(data))
        with _running(Stack(plan, log), interrupts, console) as stack, interrupts.raising():
            with Client(plan.url) as client, console.status("starting Valkey, API, worker and notifier …"):
                await_ready(client, plan.base_models, _checked(stack, folders))
            secret = plan.webhook_secret_file
            if secret is None:
                raise AssertionError("the demo's stack draws its own webhook secret")
            with (
                Client(plan.url) as client,
                running_receiver(client, secret.read_text().strip()) as receiver,
                progress_bar(console) as on_end,
            ):
                return run_jobs(client, receiver, folders.images, _checked(stack, folders), on_end)


@contextmanager
def _running(stack: Stack, interrupts: Interrupts, console: Console) -> Iterator[Stack]:
    stack.start()
    try:
        yield stack
    finally:
        with console.status("stopping …"):
            stack.stop(hurry=lambda: interrupts.asked_twice)


def _checked(stack: Stack, folders: Folders) -> Callable[[], bool]:
    def check() -> bool:
        if stack.failure:
            raise Misconfigured(f"{stack.failure} The logs are in {folders.logs}.")
        return True

    return check


@contextmanager
def progress_bar(console: Console) -> Iterator[Callable[[], None]]:
    """A bar that moves by one job at each call of what it yields."""
    columns = (TextColumn("drawing"), BarColumn(), MofNCompleteColumn(), TextColumn("jobs"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("jobs", total=JOBS)
        yield lambda: progress.advance(task)


def conclude(
    outcome: Outcome,
    words: Mapping[int, str],
    found: list[str],
    folders: Folders,
    seconds: float,
    console: Console,
    unchecked: Sequence[str] = (),
) -> int:
    """Write sheet and report, print the table and the verdict; returns the exit status. ``found``: all faults."""
    write_sheet(outcome, folders.out / SHEET)
    write_report(report_of(outcome, words, found, seconds, unchecked), folders.out / REPORT)
    console.print(table_of(outcome, words))
    for line in summary(outcome, folders, seconds):
        console.print(Text(line), soft_wrap=True)
    for phrase in unchecked:
        console.print(Text(f"not checked: {phrase}"), soft_wrap=True)
    for fault in found:
        console.print(Text(f"NOT AS IT SHOULD BE: {fault}", style="red"), soft_wrap=True)
    return 1 if found else 0


def summary(outcome: Outcome, folders: Folders, seconds: float) -> Sequence[str]:
    """The demo in a few lines."""
    counts: dict[str, int] = {}
    for one in outcome.ended:
        counts[one.job.status.value] = counts.get(one.job.status.value, 0) + 1
    states = ", ".join(f"{count} {status}" for status, count in counts.items())
    verified = WEBHOOK_WORDS[webhook_verified(outcome)]
    return (
        f"{states} (cancelled at step {outcome.cancelling.step} of {outcome.cancelling.steps}); webhook {verified}",
        f"adapter changes: {outcome.swaps}; in arrival order: {outcome.swaps_in_arrival_order}",
        f"{seconds:.0f} s; look at {folders.out / SHEET} and {folders.out / REPORT}",
    )
