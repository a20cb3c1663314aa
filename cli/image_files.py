"""Where downloaded images go."""

from __future__ import annotations

import os
from pathlib import Path

from cli.answers import ENDINGS
from cli.client import Client
from shared.errors import InvalidRequest, Misconfigured
from shared.request import ImageFormat
from shared.view import JobView

FORMATS: dict[str, ImageFormat] = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".webp": "webp"}


def is_folder(out: Path, typed: str) -> bool:
    """Whether what was typed after ``-o`` means a folder."""
    return out.is_dir() or typed.endswith(os.sep) or not out.suffix


def format_for(out: Path | None, typed: str, asked: ImageFormat | None) -> ImageFormat:
    """The format to ask for: the one asked for, else the one that the file's ending says. Raises InvalidRequest."""
    if out is None or is_folder(out, typed):
        return asked or "png"
    said = FORMATS.get(out.suffix.lower())
    if said is None:
        raise InvalidRequest(f"-o {typed}: the ending says no format; use one of {', '.join(FORMATS)}, or a folder.")
    if asked is not None and asked != said:
        raise InvalidRequest(f"-o {typed}: the ending says {said}, but the format is {asked}.")
    return said


def check_writable(out: Path, typed: str) -> None:
    """Refuse what plainly cannot be written, before a job is made for it. Raises Misconfigured."""
    there = next(path for path in (out, *out.absolute().parents) if os.path.exists(path))
    if there.is_dir() is not (there != out or is_folder(out, typed)) or not os.access(there, os.W_OK):
        raise Misconfigured(f"-o {typed}: no image can be written there, because of {there}.")


def paths_for(out: Path, typed: str, job_id: str, endings: list[str]) -> list[Path]:
    """One path per image; several images of one file name are numbered."""
    if is_folder(out, typed):
        return [out / f"{job_id}-{number}.{ending}" for number, ending in enumerate(endings)]
    if len(endings) == 1:
        return [out]
    return [out.with_stem(f"{out.stem}-{number}") for number in range(len(endings))]


def download(client: Client, job: JobView, out: Path, typed: str) -> list[Path]:
    """Download and check the job's images; returns where they are. Raises HotslotError."""
    paths = paths_for(out, typed, job.id, [ENDINGS.get(image.content_type, "png") for image in job.images])
    for image, path in zip(job.images, paths, strict=True):
        data = client.image(image)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as error:
            raise Misconfigured(f"The image cannot be written to {path}: {error.strerror}.") from error
    return paths
