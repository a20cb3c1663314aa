"""Secret settings from files: ``HOTSLOT_NAME_FILE`` names a file that holds the value of ``HOTSLOT_NAME``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from shared.errors import Misconfigured

SUFFIX = "_FILE"


def from_files(secrets: Collection[str], environment: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Values by setting name, of those ``secrets`` for which the environment names a file.

    White space around the value is dropped. Raises ``Misconfigured``, which never repeats a value.
    """
    given = {name.upper(): value for name, value in environment.items() if value}
    wanted = {name: f"{prefix}{name.upper()}" for name in secrets}
    return {
        name: _value(variable, given[variable + SUFFIX], given)
        for name, variable in wanted.items()
        if variable + SUFFIX in given
    }


def _value(variable: str, file: str, given: Mapping[str, str]) -> str:
    if variable in given:
        raise Misconfigured(f"{variable} and {variable}{SUFFIX} are both set: set one of them.")
    try:
        value = Path(file).read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise Misconfigured(f"{variable}{SUFFIX} names {file}, which holds no text.") from None
    except OSError as error:
        raise Misconfigured(f"{variable}{SUFFIX} names {file}, which cannot be read: {error.strerror}.") from error
    if not value:
        raise Misconfigured(f"{variable}{SUFFIX} names {file}, which is empty.")
    return value
