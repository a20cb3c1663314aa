"""The store of a single machine: a folder of files, whose download links the API signs and serves."""

from __future__ import annotations

import errno
import hmac
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from shared.errors import ImageNotFound, LinkRefused, Misconfigured, StoreUnavailable
from shared.settings import Settings
from shared.storage import check_key, check_prefix

INCOMING = "~incoming"
"""Half-written files. No key can name this folder, because no key holds a tilde."""
ABANDONED_S = 24 * 3600
"""Age at which a half-written file can no longer be somebody's."""
SHORTEST_SIGNING_KEY = 16
"""Characters."""
PUT_TRIES = 5
CONTENT_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}
_OPERATOR_MUST_ACT = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}
_UNIX_TIME = re.compile(r"[0-9]{1,12}")


class FolderStore:
    """Objects as files below ``root``, at the path that their key spells. See :class:`shared.storage.Store`.

    A key cannot be both an object and the folder of another (``a`` and ``a/b``): the second put is refused.
    """

    def __init__(self, root: Path, public_url: str, signing_key: bytes) -> None:
        self.root = root
        self.signing_key = signing_key
        self._public_url = public_url.rstrip("/")

    @classmethod
    def of(cls, settings: Settings) -> FolderStore:
        """Return the store of these settings; without a signing key its links live as long as this process."""
        key = settings.signing_key
        if key is None:
            return cls(settings.images_folder, settings.public_url, secrets.token_bytes(32))
        if len(key.get_secret_value()) < SHORTEST_SIGNING_KEY:
            raise Misconfigured(f"HOTSLOT_SIGNING_KEY needs at least {SHORTEST_SIGNING_KEY} characters.")
        return cls(settings.images_folder, settings.public_url, key.get_secret_value().encode())

    def path_of(self, key: str) -> Path:
        """Return the file of an object, to be streamed. Raises ImageNotFound."""
        path = self._path(key)
        if not path.is_file():
            raise ImageNotFound("There is no such image: it was never made, or its retention has passed.")
        return path

    def put(self, key: str, data: bytes, content_type: str) -> None:
        """Write an object; ``content_type`` is told by the key's ending, see :func:`content_type_of`."""
        path = self._path(key)
        with _told("write"):
            incoming = self.root / INCOMING
            incoming.mkdir(parents=True, exist_ok=True)
            half = incoming / secrets.token_hex(16)
            try:
                _write_through(half, data)
                _move(half, path)
            finally:
                half.unlink(missing_ok=True)

    def get(self, key: str) -> bytes:
        """Return an object's bytes."""
        path = self.path_of(key)
        try:
            with _told("read"):
                return path.read_bytes()
        except StoreUnavailable:
            # A delete may have come between looking and opening; then this tells so.
            self.path_of(key)
            raise

    def delete(self, key: str) -> None:
        """Remove an object, and the folders that it leaves empty."""
        path = self._path(key)
        with _told("delete"):
            with suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()
            for folder in path.relative_to(self.root).parents[:-1]:
                try:
                    (self.root / folder).rmdir()
                except OSError:
                    break

    def list(self, prefix: str) -> Iterator[str]:
        """Yield the keys that start with ``prefix``."""
        check_prefix(prefix)
        top = self.root / prefix.rpartition("/")[0]
        with _told("list"):
            for folder, folders, files in os.walk(top, onerror=_raise_unless_gone):
                if INCOMING in folders:
                    folders.remove(INCOMING)
                for name in files:
                    key = (Path(folder) / name).relative_to(self.root).as_posix()
                    if key.startswith(prefix):
                        yield key

    def link(self, key: str, lifetime_s: int, content_type: str | None = None) -> str:
        """Return a signed URL of the API's file route."""
        expires = int(time.time()) + lifetime_s
        signature = sign_link(check_key(key), expires, self.signing_key)
        return f"{self._public_url}/v1/files/{key}?expires={expires}&signature={signature}"

    def check(self) -> None:
        """Write, read and delete a small object, and sweep what killed writers left."""
        key = f"check/{secrets.token_hex(8)}"
        try:
            self.put(key, b"hotslot", "application/octet-stream")
            self.get(key)
            self.delete(key)
        except StoreUnavailable as error:
            cause = error.__cause__
            if not isinstance(cause, OSError) or cause.errno not in _OPERATOR_MUST_ACT:
                raise
            raise Misconfigured(
                f"The images folder {self.root} cannot be used ({cause.strerror}): make it a folder that this user "
                f"may write to, or set HOTSLOT_STORE_FOLDER."
            ) from error
        self._sweep()

    def _sweep(self) -> None:
        for half in (self.root / INCOMING).iterdir():
            # Another process may be sweeping too.
            with suppress(FileNotFoundError):
                if time.time() - half.stat().st_mtime > ABANDONED_S:
                    half.unlink()

    def _path(self, key: str) -> Path:
        return self.root / check_key(key)


@contextmanager
def _told(doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # Callers of the API may read this, so it does not say where the folder is.
        raise StoreUnavailable(f"The image store refused to {doing}: {error.strerror}.") from error


def content_type_of(key: str) -> str:
    """Return the media type that a key's ending tells; unknown endings are bytes, which no browser runs."""
    return CONTENT_TYPES.get(Path(key).suffix, "application/octet-stream")


def sign_link(key: str, expires: int, signing_key: bytes) -> str:
    """Return the signature of a link to ``key`` until ``expires`` (Unix seconds): HMAC-SHA256, hexadecimal."""
    return hmac.digest(
        signing_key, f"hotslot file link v1\n{key}\n{expires}".encode(errors="backslashreplace"), "sha256"
    ).hex()


def check_link(key: str, expires: int | str, signature: str, now_s: float, signing_key: bytes) -> None:
    """Accept a link whose signature is right and whose time (Unix seconds) is not over. Raises LinkRefused."""
    until_s = int(expires) if _UNIX_TIME.fullmatch(str(expires)) else -1
    # As bytes, because compare_digest refuses text that is not ASCII.
    if not hmac.compare_digest(sign_link(key, until_s, signing_key).encode(), signature.encode(errors="replace")):
        raise LinkRefused("This link is not one of ours: take a fresh one from the job.")
    if now_s >= until_s:
        raise LinkRefused("This link has expired: take a fresh one from the job.")


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def _write_through(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _move(half: Path, path: Path) -> None:
    for attempt in range(PUT_TRIES):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            half.replace(path)
            break
        except FileNotFoundError:
            # A delete took the empty folder away in between.
            if attempt == PUT_TRIES - 1:
                raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
