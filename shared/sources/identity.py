"""Which bytes a source meant at admission, so that a job runs with those or not at all."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from shared.sources.source import unsigned


@dataclass(frozen=True)
class Identity:
    """``location``: where a worker reads it, pinned as far as its kind allows. It may hold a secret query.

    ``revision``: the version that must be found there: a commit, ``version:ID``, ``etag:"…"`` or
    ``modified:DATE;bytes=SIZE``; None where the hash says it all. ``sha256``: hex, where the source tells it.
    """

    location: str
    revision: str | None
    sha256: str | None

    @property
    def key(self) -> str:
        """A hash that is the same for the same place and version, hex."""
        return identity_key(self.location, self.revision)


def identity_key(location: str, revision: str | None) -> str:
    """SHA-256, hex, of a place and the version found there; a link that was only signed anew is the same place."""
    return hashlib.sha256(f"hotslot adapter v1\n{unsigned(location)}\n{revision or ''}".encode()).hexdigest()


def is_exact(revision: str | None) -> bool:
    """Whether equal revisions mean equal bytes, so that a download may go on where another one stopped."""
    return revision is None or not revision.startswith(("modified:", "etag:W/"))
