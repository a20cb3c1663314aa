from __future__ import annotations

from io import StringIO

from rich.console import Console

from cli.answers import Worker, Workers
from cli.queues import worker_table
from tests.cli.api_server import JOB_ID


def test_names_and_ids_are_whole_in_a_narrow_terminal() -> None:
    name = "tiny-flux-1234567@a-host-with-a-rather-long-name.example.org"
    worker = Worker(
        name=name,
        base_model="tiny-flux",
        state="busy",
        job=JOB_ID,
        resident=["crayon", "outline"],
        recipe="eager",
        jobs=24,
        swaps=5,
        busy_ratio=0.968,
    )
    shown = StringIO()
    Console(file=shown, width=80).print(worker_table(Workers(workers=[worker])))
    rows = [line.split("│") for line in shown.getvalue().splitlines() if "│" in line]
    said = ["".join(word.strip() for word in column) for column in zip(*rows, strict=True)]
    assert name in said
    assert JOB_ID in said
    assert "97%" in "".join(said)
    assert "\u2026" not in shown.getvalue()
