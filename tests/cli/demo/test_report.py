from __future__ import annotations

import json
from pathlib import Path

from PIL import Image
from rich.console import Console

from cli.demo.plan import CANCELLED, JOBS
from cli.demo.report import REPORT, SHEET, report_of, table_of, write_report, write_sheet
from tests.cli.demo.outcomes import good_outcome


def test_the_report_holds_what_was_promised(tmp_path: Path) -> None:
    outcome = good_outcome(tmp_path)
    write_report(report_of(outcome, {0: "bit-equal"}, [], 12.34, ["the moon"]), tmp_path / REPORT)
    report = json.loads((tmp_path / REPORT).read_text())
    assert report["swaps"] == 6
    assert report["swaps_in_arrival_order"] == JOBS
    assert report["webhook_verified"] is True
    assert report["seconds"] == 12.3
    assert report["not_checked"] == ["the moon"]
    assert [job["status"] for job in report["jobs"]].count("succeeded") == JOBS - 1
    assert all(
        set(job) >= {"id", "status", "adapters", "seed", "images", "receipt", "timings_ms"} for job in report["jobs"]
    )
    first, cancelled = report["jobs"][0], report["jobs"][CANCELLED]
    assert first["compared_with_fresh_pipeline"] == "bit-equal"
    assert (tmp_path / first["images"][0]["file"].removeprefix("images/")).exists()
    assert (cancelled["status"], cancelled["images"], cancelled["receipt"]) == ("cancelled", [], None)


def test_the_sheet_is_a_picture_of_all(tmp_path: Path) -> None:
    write_sheet(good_outcome(tmp_path), tmp_path / SHEET)
    with Image.open(tmp_path / SHEET) as sheet:
        colours = {colour for _, colour in sheet.convert("RGB").getcolors(1 << 24) or []}
    assert {(number, 0, 0) for number in range(JOBS) if number != CANCELLED} <= colours


def test_the_table_has_a_row_per_adapter_set(tmp_path: Path) -> None:
    table = table_of(good_outcome(tmp_path), {0: "bit-equal", 1: "1/255 off (NOT within 0)"})
    assert table.row_count == 8
    console = Console(width=120, record=True, quiet=False, file=(tmp_path / "out").open("w"))
    with console.file:
        console.print(table)
    shown = console.export_text()
    assert "2 succeeded, 1 cancelled" in shown
    assert "NOT within" in shown
