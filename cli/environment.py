"""The environment of the processes that a stack consists of: what the user set, and what the stack decides."""

from __future__ import annotations

import sysconfig
from collections.abc import Mapping
from pathlib import Path

import shared
from shared.settings import PREFIX

LOOPBACK_NETWORKS = ("127.0.0.0/8", "::1/128")


def with_decided(
    environment: Mapping[str, str], decided: Mapping[str, str], given: frozenset[str] = frozenset()
) -> dict[str, str]:
    """The environment plus decided settings (by setting name), except those that the user has ``given``."""
    chosen = {PREFIX + name.upper(): value for name, value in decided.items() if name not in given}
    # Settings are read whatever their case, so an other spelling of a decided one must go.
    kept = {name: value for name, value in environment.items() if name.upper() not in chosen}
    return kept | chosen


def without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without any setting of ours."""
    return {name: value for name, value in environment.items() if not name.upper().startswith(PREFIX)}


def for_python(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with which ``python -P -m api`` finds this very code, and speaks line by line."""
    root = Path(shared.__file__).resolve().parents[1]
    found = dict(environment) | {"PYTHONUNBUFFERED": "1"}
    # An installed package is found by itself; in a source tree Python must be told.
    if root != Path(sysconfig.get_path("purelib")).resolve():
        earlier = environment.get("PYTHONPATH")
        found["PYTHONPATH"] = f"{root}:{earlier}" if earlier else str(root)
    return found


def loopback_networks() -> str:
    """This machine's own addresses, as the setting of the networks that webhooks may reach."""
    return ",".join(LOOPBACK_NETWORKS)
