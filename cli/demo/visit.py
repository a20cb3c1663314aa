"""``hotslot demo --url``: the demo's jobs and checks on a stack that runs already, over HTTP alone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from cli.client import Client
from cli.demo.checks import faults
from cli.demo.jobs import run_jobs
from cli.demo.outcome import Outcome
from cli.demo.plan import BASE_MODEL
from cli.demo.receiver import Receiver, running_receiver
from cli.demo.references import Comparison, compare
from cli.demo.run import Folders, conclude, progress_bar
from cli.environment import without_settings
from cli.interrupts import Interrupts
from cli.log_lines import FileLog
from cli.processes import Say
from cli.readiness import await_ready, ready
from shared.errors import Misconfigured, Unavailable
from shared.settings import Settings

WORKER_PATIENCE_S = 180.0
"""How long the stack may be without a worker that takes jobs: a model is loaded in this time."""
NO_HOST = "the webhook: say with --webhook-host by which name the stack reaches this machine"
NO_SECRET = "the webhook: set HOTSLOT_WEBHOOK_SECRET or HOTSLOT_WEBHOOK_SECRET_FILE to the secret of the stack"  # noqa: S105
NO_TORCH = "the images against fresh pipelines: torch is not installed here"


@dataclass
class WorkerWatch:
    """Raises once no worker of the demo's base model has taken jobs for ``patience_s``."""

    client: Client
    patience_s: float = WORKER_PATIENCE_S
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._since_s = self.clock()

    def __call__(self) -> bool:
        """Look now; True while there is hope. Raises Unavailable."""
        if ready(self.client, (BASE_MODEL,)):
            self._since_s = self.clock()
        elif self.clock() - self._since_s > self.patience_s:
            raise Unavailable(f"No worker at {self.client.url} takes jobs of {BASE_MODEL}.")
        return True


@dataclass(frozen=True)
class Hooks:
    """How webhooks of the stack are received: signed with ``secret``, sent to this machine under the name ``host``."""

    secret: str
    host: str


def visit(url: str, settings: Settings, webhook_host: str | None, out: Path, console: Console) -> int:
    """Run the demo on the stack at ``url``; returns the exit status, 0 only if everything checked was as it must be.

    Webhooks are checked with the stack's secret and the name by which it reaches this machine; without them, and
    where torch is missing, what was not checked is said. Raises SetupError or Unavailable.
    """
    started_s = time.monotonic()
    folders = Folders(out)
    folders.prepare()
    secret = settings.webhook_secret.get_secret_value() if settings.webhook_secret else ""
    hooks = Hooks(secret, webhook_host) if secret and webhook_host else None
    with Interrupts() as interrupts, closing(FileLog(folders.logs)) as log, Client(url) as client:
        try:
            with interrupts.raising():
                outcome = _drawn(client, hooks, folders, console)
                with console.status("comparing with fresh pipelines …"):
                    comparison = _compared(outcome, folders, log)
        except KeyboardInterrupt:
            console.print("stopped")
            return interrupts.exit_status
    missing = unchecked(webhook_host, secret, has_torch=_has_torch())
    found = faults(outcome) + list(comparison.faults)
    return conclude(outcome, comparison.words, found, folders, time.monotonic() - started_s, console, missing)


def unchecked(webhook_host: str | None, webhook_secret: str, *, has_torch: bool) -> list[str]:
    """What cannot be checked with what is given and installed, a phrase each."""
    lacks = {NO_HOST: not webhook_host, NO_SECRET: not webhook_secret, NO_TORCH: not has_torch}
    return [phrase for phrase, lacking in lacks.items() if lacking]


def _drawn(client: Client, hooks: Hooks | None, folders: Folders, console: Console) -> Outcome:
    if BASE_MODEL not in {model.name for model in client.base_models().base_models}:
        raise Misconfigured(f"{client.url} serves no {BASE_MODEL}, with which the demo draws.")
    with console.status(f"looking for a worker at {client.url} …"):
        await_ready(client, (BASE_MODEL,), WorkerWatch(client))
    with _receiver(client, hooks) as receiver, progress_bar(console) as on_end:
        return run_jobs(client, receiver, folders.images, WorkerWatch(client), on_end)


@contextmanager
def _receiver(client: Client, hooks: Hooks | None) -> Iterator[Receiver | None]:
    if hooks is None:
        yield None
        return
    with running_receiver(client, hooks.secret, hooks.host) as receiver:
        yield receiver


def _compared(outcome: Outcome, folders: Folders, log: Say) -> Comparison:
    if not _has_torch():
        return Comparison({}, [])
    # Another processor may round the last bits in another way.
    return compare(outcome, folders.references, without_settings(os.environ), log, bits_may_differ=True)


def _has_torch() -> bool:
    return find_spec("torch") is not None
