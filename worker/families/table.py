"""The families that a worker can serve, by the names that the catalogue gives them."""

from __future__ import annotations

from worker.families.flux import FLUX
from worker.families.sd15 import SD15
from worker.families.sdxl import SDXL

TORCH_FAMILIES = {each.family.name: each for each in (FLUX, SDXL, SD15)}
