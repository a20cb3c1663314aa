"""The version of the installed distribution."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("hotslot")
except PackageNotFoundError:
    # Run from a source tree that was never installed.
    VERSION = "unknown"
