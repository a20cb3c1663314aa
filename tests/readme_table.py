"""The README's table of files, made from each file's own first line. ``python -m tests.readme_table`` writes it."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("api", "worker", "shared", "cli")
BEGIN, END = "<!-- files: begin -->", "<!-- files: end -->"


def first_line(path: Path) -> str:
    """What a file says of itself: the first line of its docstring or of its first comment."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    return text.partition("\n")[0].lstrip("-# ")


def files(package: str) -> list[Path]:
    """The package's source files, its own ``__init__`` first."""
    found = [path for suffix in ("py", "lua", "toml") for path in (ROOT / package).rglob(f"*.{suffix}")]
    return sorted(found, key=lambda path: (path.parent.as_posix(), path.name != "__init__.py", path.name))


def table() -> str:
    """The whole table in Markdown."""
    rows = ["| file | what it is |", "| --- | --- |"]
    for package in PACKAGES:
        for path in files(package):
            shown = path.relative_to(ROOT).as_posix()
            name = f"`{shown.removesuffix('__init__.py')}`"
            rows.append(f"| {name} | {first_line(path).replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


def replaced(readme: str) -> str:
    """The README with a fresh table between its markers."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    target = ROOT / "README.md"
    target.write_text(replaced(target.read_text(encoding="utf-8")), encoding="utf-8")
