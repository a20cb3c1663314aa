"""``hotslot queues``: what waits, and who works on it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from cli.answers import Queues, Workers
from cli.client import Client


def queues(client: Client, console: Console) -> None:
    """Print both tables. Raises HotslotError."""
    found = client.queues()
    console.print(queue_table(found))
    for queue in found.queues:
        if queue.warning:
            console.print(Text(queue.warning, style="yellow"))
    console.print(worker_table(client.workers()))


def queue_table(found: Queues) -> Table:
    """A row per queue, and one per group that waits in it."""
    table = Table("base model", "adapters", "waiting", "oldest wait", "running", "swaps", title="Queues")
    for queue in found.queues:
        table.add_row(
            Text(queue.base_model, style="bold"),
            "all",
            str(queue.depth),
            waited(queue.oldest_wait_ms),
            str(queue.running),
            str(queue.swaps),
        )
        for group in queue.groups:
            table.add_row("", Text(label(group.adapters)), str(group.waiting), waited(group.oldest_wait_ms), "", "")
    return table


def worker_table(found: Workers) -> Table:
    """A row per living worker."""
    # Names and ids are there to be copied, so they are folded, never cut.
    name, job = Column("worker", overflow="fold"), Column("job", overflow="fold")
    table = Table(name, "state", job, "adapters in the slot", "jobs", "swaps", "busy", title="Workers")
    for worker in found.workers:
        table.add_row(
            Text(worker.name),
            worker.state,
            worker.job or "",
            Text(label(worker.resident)),
            str(worker.jobs),
            str(worker.swaps),
            share(worker.busy_ratio),
        )
    if not found.workers:
        table.add_row("no worker is alive", "", "", "", "", "", "")
    return table


def label(adapters: Sequence[str]) -> str:
    """Adapters in one line."""
    return " + ".join(adapters) or "none"


def share(ratio: float | None) -> str:
    """Part of a time in percent; nothing when nothing was measured."""
    return "" if ratio is None else f"{ratio:.0%}"


def waited(ms: int | None) -> str:
    """A waiting time as people read it; nothing when nothing waits."""
    if ms is None:
        return ""
    if ms < 1000:
        return f"{ms} ms"
    seconds = ms / 1000
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
