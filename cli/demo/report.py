"""The demo's results for people and programs: contact sheet, ``report.json``, and a short table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from PIL import Image
from rich.table import Table

from cli.demo.checks import webhook_verified
from cli.demo.outcome import Ended, Outcome
from cli.demo.sheet import Cell, Row, draw_sheet
from shared.job import Status

SHEET = "contact-sheet.png"
REPORT = "report.json"


def by_adapters(ended: Sequence[Ended]) -> dict[str, list[Ended]]:
    """The jobs by the names of their adapters, in the order in which these first appear; strengths aside."""
    groups: dict[str, list[Ended]] = {}
    for one in ended:
        name = " + ".join(adapter.source for adapter in one.planned.adapters) or "none"
        groups.setdefault(name, []).append(one)
    return groups


def write_sheet(outcome: Outcome, path: Path) -> None:
    """Draw and write the contact sheet."""
    rows = [Row(name, tuple(map(cell_of, group))) for name, group in by_adapters(outcome.ended).items()]
    heading = f"hotslot demo: {len(outcome.ended)} jobs, one resident model, {outcome.swaps} adapter changes"
    draw_sheet(heading, rows).save(path)


def cell_of(one: Ended) -> Cell:
    """A job's image with what it was made with."""
    caption = (one.planned.adapter_words, one.planned.prompt, f"seed {one.planned.seed}")
    if one.image is None:
        return Cell(None, (*caption, one.job.status.value))
    with Image.open(one.image) as opened:
        return Cell(opened.convert("RGB"), caption)


def report_of(
    outcome: Outcome, compared: Mapping[int, str], faults: Sequence[str], seconds: float, unchecked: Sequence[str] = ()
) -> dict[str, Any]:
    """What ``report.json`` holds.

    ``compared``: by job number, how its image compares with a fresh pipeline's; ``unchecked``: what was not looked at.
    """
    return {
        "jobs": [job_report(one, compared.get(one.planned.number)) for one in outcome.ended],
        "swaps": outcome.swaps,
        "swaps_in_arrival_order": outcome.swaps_in_arrival_order,
        "webhook_verified": webhook_verified(outcome),
        "cancelled_at_step": outcome.cancelling.step,
        "faults": list(faults),
        "not_checked": list(unchecked),
        "seconds": round(seconds, 1),
    }


def job_report(one: Ended, compared: str | None) -> dict[str, Any]:
    """One job's part of the report."""
    job = one.job.model_dump(mode="json")
    return {
        "id": job["id"],
        "number": one.planned.number,
        "status": job["status"],
        "prompt": job["prompt"],
        "adapters": job["adapters"],
        "seed": job["seed"],
        "images": [image | {"file": f"images/{one.planned.file_name}"} for image in job["images"]],
        "receipt": job["receipt"],
        "timings_ms": job["timings_ms"],
        "compared_with_fresh_pipeline": compared,
    }


def write_report(report: Mapping[str, Any], path: Path) -> None:
    """Write it as JSON."""
    path.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def table_of(outcome: Outcome, compared: Mapping[int, str]) -> Table:
    """A row per adapter set."""
    table = Table("adapters", "jobs", "ended", "swap ms", "denoise ms", "fresh pipeline")
    for name, group in by_adapters(outcome.ended).items():
        results = [compared[one.planned.number] for one in group if one.planned.number in compared]
        table.add_row(
            name,
            str(len(group)),
            endings(group),
            middle(group, "swap"),
            middle(group, "denoise"),
            ", ".join(dict.fromkeys(results)) or "not compared",
        )
    return table


def endings(group: Sequence[Ended]) -> str:
    """How many jobs ended how."""
    counts = {status: sum(one.job.status is status for one in group) for status in Status}
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count)


def middle(group: Sequence[Ended], stage: str) -> str:
    """Median milliseconds that a stage took."""
    values = [one.job.timings_ms[stage] for one in group if stage in one.job.timings_ms]
    return f"{median(values):.1f}" if values else ""
