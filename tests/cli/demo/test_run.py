"""The demo, as a new user runs it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[3]
LONGEST_S = 500.0

SHARED_NOTHING = {
    "HOTSLOT_REDIS_URL": "redis://127.0.0.1:1/0",
    "HOTSLOT_STORE": "s3",
    "HOTSLOT_WEBHOOK_SECRET": "whsec_not-a-secret",
    "HOTSLOT_CATALOGUE": "/nowhere",
    "HOTSLOT_CACHE_FOLDER": "/nowhere",
}
"""Settings of the user's own Hotslot, none of which may reach the demo."""


def test_the_demo_makes_and_proves_what_it_promises(tmp_path: Path) -> None:
    out = tmp_path / "demo out"
    environment = os.environ | SHARED_NOTHING | {"PYTHONPATH": str(ROOT)}
    environment["TMPDIR"] = str(tmp_path)
    command = [sys.executable, "-m", "cli.main", "demo", "--out", str(out)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST_S)
    assert done.returncode == 0, done.stdout + done.stderr

    report = json.loads((out / "report.json").read_text())
    statuses = [job["status"] for job in report["jobs"]]
    assert (statuses.count("succeeded"), statuses.count("cancelled"), len(statuses)) == (23, 1, 24)
    assert report["webhook_verified"] is True
    assert report["swaps"] <= 12 < 20 <= report["swaps_in_arrival_order"]
    assert report["faults"] == []
    images = [image for job in report["jobs"] for image in job["images"]]
    assert len(images) == 23
    for image in images:
        assert hashlib.sha256((out / image["file"]).read_bytes()).hexdigest() == image["sha256"]
    compared = [job["compared_with_fresh_pipeline"] for job in report["jobs"] if job["compared_with_fresh_pipeline"]]
    assert len(compared) == 10
    assert compared.count("bit-equal") >= 5
    with Image.open(out / "contact-sheet.png") as sheet:
        assert sheet.width > 800
    assert left_behind(tmp_path) == []
    assert list(tmp_path.glob("hotslot-demo-*")) == []


def left_behind(folder: Path) -> list[str]:
    """Command lines of processes that were started for this folder."""
    mark = str(folder).encode()
    found = [path for path in Path("/proc").glob("[0-9]*") if mark in read(path / "cmdline") + read(path / "environ")]
    return [read(path / "cmdline").decode(errors="replace") for path in found]


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
