"""``hotslot verify``: is this image the one of that receipt, and was it made with these adapter files?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from shared.adapter_files import sha256_of
from shared.errors import ReceiptRefused
from shared.receipt import check_signature, key_id_of


def verify(
    receipt_file: Path, image: Path, adapters: Sequence[Path], public_keys: Mapping[str, str], console: Console
) -> int:
    """Print what was found; returns the exit status: 0 only if all of it is proven. Raises ReceiptRefused."""
    receipt = read_receipt(receipt_file)
    key_id = check_signature(receipt, public_keys)
    job = receipt.get("job") or "unknown"
    for line in (f"receipt of job {job}: signed with the key {key_id}", *described(receipt)):
        console.print(Text(line), soft_wrap=True)
    found = faults(receipt, _hash_of(image), {str(path): _hash_of(path) for path in adapters})
    for fault in found:
        console.print(Text(f"NOT PROVEN: {fault}", style="red"), soft_wrap=True)
    if not found:
        console.print(Text(f"{image} was made by this job, with exactly these adapters"), soft_wrap=True)
    return 1 if found else 0


def read_receipt(path: Path) -> dict[str, Any]:
    """The receipt in a JSON file, which may also hold the whole job. Raises ReceiptRefused."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReceiptRefused(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise ReceiptRefused(f"{path} holds no JSON.") from error
    found = content.get("receipt", content) if isinstance(content, dict) else None
    if not isinstance(found, dict) or "images_sha256" not in found:
        raise ReceiptRefused(f"{path} holds neither a receipt nor a job with one.")
    return found


def faults(receipt: Mapping[str, Any], image_sha256: str, adapters: Mapping[str, str]) -> list[str]:
    """What the receipt does not prove, one sentence each; ``adapters``: hashes by file name."""
    found = []
    if image_sha256 not in receipt["images_sha256"]:
        found.append("the image is none of this receipt's")
    used = {adapter["sha256"] for adapter in receipt["adapters"]}
    found += [f"{name} is no adapter of this receipt" for name, sha256 in adapters.items() if sha256 not in used]
    return found


def described(receipt: Mapping[str, Any]) -> list[str]:
    """What made the image, a line per adapter."""
    lines = [f"base model {receipt['base_model']} ({receipt['base_revision']}), {receipt['recipe']}"]
    for adapter in receipt["adapters"]:
        revision = f" at {adapter['revision']}" if adapter["revision"] else ""
        name = f"{adapter['source']}{revision}"
        lines.append(f"adapter {name}, strength {adapter['scale']:g}, sha256 {adapter['sha256']}")
    return lines if receipt["adapters"] else [*lines, "no adapter"]


def keys_of(text: str) -> dict[str, str]:
    """Public keys by id, of one key in base64 or of a file that holds one per line."""
    path = Path(text)
    words = path.read_text(encoding="ascii").split() if path.is_file() else [text]
    return {key_id_of(word): word for word in words}


def _hash_of(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise ReceiptRefused(f"{path} cannot be read: {error.strerror}.") from error
