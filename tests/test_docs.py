"""What the documentation says of adapters is what the code does."""

from __future__ import annotations

import re

from shared.adapters.names import Dialect
from tests.adapters_table import PAGE, ROOT, accepted, refused, replaced

SOURCES = [*sorted((ROOT / "shared" / "adapters").glob("*.py")), ROOT / "worker" / "convert.py"]


def test_the_tables_are_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == replaced(page), "run: .venv/bin/python -m tests.adapters_table"


def test_every_dialect_is_listed() -> None:
    listed = re.findall(r"^\| `([^`]+)`", accepted(), re.MULTILINE)
    assert listed == [dialect.value for dialect in Dialect]


def test_every_reason_is_listed() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    named = set(re.findall(r'reason="(\w+)"', text)) | set(re.findall(r'(?:refusal|_kind)\(\s*"(\w+)"', text))
    listed = set(re.findall(r"^\| `\w+` \| `(\w+)`", refused(), re.MULTILINE))
    # What is no file at all is told before it is looked into.
    assert named - listed == {"no_file"}
