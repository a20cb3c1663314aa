"""Job ids: ULIDs, so they sort by time, tell their age, and cannot be guessed (80 random bits)."""

from __future__ import annotations

from ulid import ULID


def new_job_id() -> str:
    """A new id of 26 characters (Crockford base 32)."""
    return str(ULID())


def created_ms_of(job_id: str) -> int | None:
    """Unix milliseconds at which the id was made, or None when it is not an id of ours."""
    try:
        return int(ULID.from_str(job_id).milliseconds)
    except ValueError:
        return None
