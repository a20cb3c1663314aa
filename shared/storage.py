"""Where finished images are kept, and what every store promises.

An object is whole or not there: no reader ever sees half of one. Keys hold ids and numbers only, never a prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from shared.errors import InvalidRequest
from shared.settings import Settings

# A part becomes a file's name, and file systems take 255 bytes at most.
_KEY = re.compile(r"[A-Za-z0-9._-]{1,255}(/[A-Za-z0-9._-]{1,255})*")
LONGEST_KEY = 512
"""Characters; well below S3's 1024 bytes."""


class Store(Protocol):
    """A flat space of objects. Safe to use from several threads; open it after a fork, not before.

    Every method raises StoreUnavailable where the store does not answer or refuses, and InvalidRequest for a key
    that :func:`check_key` refuses. No message holds a secret.
    """

    def put(self, key: str, data: bytes, content_type: str) -> None:
        """Write an object, replacing one of the same key. When this returns the object is on disk."""

    def get(self, key: str) -> bytes:
        """Return an object's bytes. Raises ImageNotFound."""

    def delete(self, key: str) -> None:
        """Remove an object; none of that key is fine."""

    def list(self, prefix: str) -> Iterator[str]:
        """Yield the keys that start with ``prefix``, in no promised order."""

    def link(self, key: str, lifetime_s: int, content_type: str | None = None) -> str:
        """Return a URL at which anybody can read the object for ``lifetime_s`` seconds.

        It works from outside, whatever address this process itself uses. The object need not be there.
        """

    def check(self) -> None:
        """Write, read and delete a small object. Raises StoreUnavailable, or Misconfigured with what to change."""


def open_store(settings: Settings) -> Store:
    """Return the store that the settings name, without talking to it. Raises Misconfigured."""
    # Here and not at the top, because boto3 takes a third of a second that the folder's users need not wait.
    if settings.store == "s3":
        from shared.storage_s3 import S3Store

        return S3Store.of(settings)
    from shared.storage_folder import FolderStore

    return FolderStore.of(settings)


def check_key(key: str) -> str:
    """Return the key if every store takes it: names of ``A-Za-z0-9._-`` joined by single slashes.

    No name is ``.`` or ``..``. Raises InvalidRequest.
    """
    if len(key) <= LONGEST_KEY and _KEY.fullmatch(key) and not {".", ".."} & set(key.split("/")):
        return key
    raise InvalidRequest("An object's key is made of letters, digits, '.', '_' and '-', in parts joined by '/'.")


def check_prefix(prefix: str) -> str:
    """Return the prefix if keys may start with it; the empty one and one that ends in a slash are fine.

    Raises InvalidRequest.
    """
    # A prefix may end anywhere inside a key, so it is one where one more letter makes a key.
    check_key(f"{prefix}x")
    return prefix
