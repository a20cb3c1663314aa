"""An operator sees what would run before anything is loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from shared.catalogue import Catalogue
from tests.machines import H100, T4
from tests.recipes_table import entry_of
from worker.show_plans import plans_in_words

ROOT = Path(__file__).parents[2]


def test_each_base_model_has_a_paragraph() -> None:
    catalogue = Catalogue(base_models={name: entry_of(name) for name in ("flux.1-dev", "tiny-flux")})
    text, all_run = plans_in_words(catalogue, H100)
    machine, flux, tiny = text.split("\n\n")
    assert all_run
    assert machine == "H100 (compute capability 9.0): 79.5 GiB of 80.0 GiB are free."
    first, why, memory, steps = flux.splitlines()
    assert first == "flux.1-dev: hopper on cuda"
    assert why == ("  The recipe hopper is the first of flux.1-dev, and H100 (compute capability 9.0) can run it.")
    assert memory.startswith("  It takes about 24.5 GiB (weights 11.3 GiB, ")
    assert steps == "  Steps: download, load, quantise, inject, attention, compile, warm."
    assert tiny.startswith("tiny-flux: eager on cpu\n  The catalogue names the recipe eager.\n")


def test_what_cannot_run_and_what_was_not_estimated() -> None:
    entries = [entry_of("flux.1-dev"), entry_of("sd1.5", parameters=None)]
    text, all_run = plans_in_words(Catalogue(base_models={entry.name: entry for entry in entries}), T4)
    assert not all_run
    assert "flux.1-dev: none\n  T4 (compute capability 7.5) can run no recipe of flux.1-dev. " in text
    assert "sd1.5: half on cuda\n" in text
    assert "so its memory was not estimated." in text


def test_the_command(tmp_path: Path) -> None:
    catalogue = tmp_path / "catalogue.toml"
    catalogue.write_text('[base_models.tiny-flux]\nuse = "tiny-flux"\n[base_models.sd]\nuse = "sd1.5"\n')
    done = subprocess.run(
        [sys.executable, "-m", "worker", "--plan"],
        cwd=ROOT, env=os.environ | {"HOTSLOT_CATALOGUE": str(catalogue)}, capture_output=True, text=True,
    )  # fmt: skip
    assert "tiny-flux: eager on cpu" in done.stdout, done.stderr
    assert "sd: " in done.stdout
    assert done.returncode in (0, 1)
