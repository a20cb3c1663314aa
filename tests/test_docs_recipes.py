"""What the documentation says of recipes is what the code does."""

from __future__ import annotations

from tests.recipes_table import PAGE, replaced


def test_the_tables_are_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == replaced(page), "run: .venv/bin/python -m tests.recipes_table"
