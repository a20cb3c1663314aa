"""The spool: what a crash leaves, and whose it is."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image

from shared.errors import Misconfigured
from tests.shared.jobs import result
from worker.encode import encode
from worker.spool import Spool, Spooled, SpooledImage

PIXELS = bytes(range(12))


def spooled(job_id: str, when_s: float = 1.0) -> Spooled:
    return Spooled(
        job_id=job_id,
        attempt=1,
        format="png",
        images=[SpooledImage(file="0.rgb", width=2, height=2, seed=7)],
        receipt=result(job_id, 1).receipt,
        timings_ms={"denoise": 1.0},
        warnings=["w"],
        spooled_at_s=when_s,
    )


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    spool = Spool(tmp_path, "w1")
    spool.own()
    return spool


def test_what_was_put_is_found_by_the_next_child(spool: Spool, tmp_path: Path) -> None:
    later, earlier = spooled("b", 2.0), spooled("a", 1.0)
    spool.put(later, [PIXELS])
    spool.put(earlier, [PIXELS])
    child = Spool(tmp_path, "w1")
    assert child.pending() == [earlier, later]
    assert child.pixels(earlier, earlier.images[0]) == PIXELS
    child.remove(earlier)
    assert spool.pending() == [later]


def test_a_crash_before_the_manifest_leaves_nothing_that_counts(spool: Spool, tmp_path: Path) -> None:
    spool.put(spooled("a"), [PIXELS])
    (tmp_path / "w1" / "a.1" / "manifest.json").unlink()
    assert spool.pending() == []
    spool.put(spooled("a"), [PIXELS])
    assert spool.pending() == [spooled("a")]


def test_a_worker_that_is_gone_leaves_no_spool_behind(tmp_path: Path) -> None:
    gone, alive = tmp_path / "gone", Spool(tmp_path, "alive")
    gone.mkdir()
    (gone / "lock").touch()
    alive.own()
    Spool(tmp_path, "new").own()
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["alive", "new"]


def test_workers_that_start_together_do_not_take_each_other_for_gone(tmp_path: Path) -> None:
    for number in range(10):
        spools = [Spool(tmp_path, f"worker-{number}-{one}") for one in range(6)]
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(Spool.own, spools))
        for spool in spools:
            spool.put(spooled("a"), [PIXELS])
            with pytest.raises(Misconfigured, match="Another worker"):
                spool.own()


def test_a_manifest_that_nobody_can_read_is_removed(spool: Spool, tmp_path: Path) -> None:
    spool.put(spooled("a"), [PIXELS])
    (tmp_path / "w1" / "a.1" / "manifest.json").write_text("{}")
    assert spool.pending() == []
    assert not (tmp_path / "w1" / "a.1").exists()


def test_png_is_lossless() -> None:
    image = Image.open(io.BytesIO(encode(PIXELS, 2, 2, "png")))
    assert (image.mode, image.size, image.tobytes()) == ("RGB", (2, 2), PIXELS)
