"""What the README says of the tree is true."""

from __future__ import annotations

import pytest

from tests.readme_table import BEGIN, END, PACKAGES, ROOT, files, first_line, replaced


def test_the_table_of_files_is_the_tree() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert BEGIN in readme
    assert END in readme
    assert readme == replaced(readme), "run: .venv/bin/python -m tests.readme_table"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_file_says_what_it_is(package: str) -> None:
    silent = [path.name for path in files(package) if not first_line(path)]
    assert silent == []
