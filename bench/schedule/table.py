"""The rows as a table for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.schedule.report import Row

_COLUMNS: tuple[tuple[str, str], ...] = (
    ("trace", "{trace:<10}"),
    ("workers", "{workers:>7}"),
    ("load", "{load:>5.2f}"),
    ("swap s", "{swap_s:>6.2f}"),
    ("policy", "{policy:<10}"),
    ("swaps/job", "{swaps_per_job:>9.3f}"),
    ("floor", "{lower_bound:>6.3f}"),
    ("p50 wait s", "{p50_wait_s:>10.0f}"),
    ("p99 wait s", "{p99_wait_s:>10.0f}"),
    ("overtaken", "{worst_overtaken:>9}"),
    ("fairness", "{fairness_index:>8.3f}"),
)


def lines(rows: Sequence[Row]) -> Iterator[str]:
    """A heading, and a line per row; scenarios are apart."""
    shown = [[form.format(**row) for _, form in _COLUMNS] for row in rows]
    widths = [len(cell) for cell in shown[0]]
    yield "  ".join(title.ljust(width) for (title, _), width in zip(_COLUMNS, widths, strict=True)).rstrip()
    for number, (row, cells) in enumerate(zip(rows, shown, strict=True)):
        if number and row["policy"] == "arrival":
            yield ""
        yield "  ".join(cells)
