"""``hotslot queues``: what waits, and who works on it."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.answers import Group, Queues, Workers
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
            table.add_row("", Text(label(group)), str(group.waiting), waited(group.oldest_wait_ms), "", "")
    return table


def worker_table(found: Workers) -> Table:
    """A row per living worker."""
    table = Table("worker", "state", "job", "adapters in the slot", "jobs", "swaps", title="Workers")
    for worker in found.workers:
        table.add_row(
            Text(worker.name),
            worker.state,
            worker.job or "",
            Text(worker.resident or "none"),
            str(worker.jobs),
            str(worker.swaps),
        )
    if not found.workers:
        table.add_row("no worker is alive", "", "", "", "", "")
    return table


def label(group: Group) -> str:
    """A group's adapters in one line."""
    return " + ".join(group.adapters) or "none"


def waited(ms: int | None) -> str:
    """A waiting time as people read it; nothing when nothing waits."""
    if ms is None:
        return ""
    if ms < 1000:
        return f"{ms} ms"
    seconds = ms / 1000
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
