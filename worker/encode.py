"""Raw pixels to image files."""

from __future__ import annotations

import io

from PIL import Image

from shared.request import ImageFormat

CONTENT_TYPES: dict[ImageFormat, str] = {"png": "image/png", "jpeg": "image/jpeg", "webp": "image/webp"}
EXTENSIONS: dict[ImageFormat, str] = {"png": "png", "jpeg": "jpg", "webp": "webp"}


def encode(pixels: bytes, width: int, height: int, kind: ImageFormat) -> bytes:
    """An image file of ``height`` x ``width`` x 3 bytes of RGB. PNG is lossless; the others have quality 95."""
    image = Image.frombytes("RGB", (width, height), pixels)
    out = io.BytesIO()
    if kind == "png":
        image.save(out, "PNG", compress_level=4)
    else:
        image.save(out, kind.upper(), quality=95)
    return out.getvalue()
