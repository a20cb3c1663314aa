"""Which base model a file is for."""

from __future__ import annotations

import pytest

from shared.adapters.header import Header, TensorEntry
from shared.adapters.resolve import base_model_of
from shared.adapters.served import base_of, served_bases
from shared.catalogue import BaseModelEntry, Catalogue, read_catalogue
from shared.errors import CatalogueInvalid
from shared.families.bundled import FAMILIES

TINY = read_catalogue().base_models["tiny-flux"]


def entry(name: str, family: str, **more: object) -> BaseModelEntry:
    fields = TINY.model_dump() | {"name": name, "family": family, "builtin_adapters": (), "source": f"/models/{name}"}
    return BaseModelEntry.model_validate(fields | more)


CATALOGUE = Catalogue(
    base_models={
        found.name: found
        for found in (
            entry("dev", "flux.1", layout="flux.1-dev", aliases=("black-forest-labs/FLUX.1-dev", "flux1-dev")),
            entry("schnell", "flux.1", source="black-forest-labs/FLUX.1-schnell"),
            entry("xl", "sdxl", layout="sdxl-base-1.0", aliases=("sdxl_base_v1-0", "RunDiffusion/Juggernaut-XL")),
            entry("far", "sd1.5"),
        )
    }
)
BASES = served_bases(CATALOGUE)


def header(layer: str = "transformer.x_embedder", inputs: int = 64, outputs: int = 3072, **metadata: str) -> Header:
    shapes = {f"{layer}.lora_A.weight": (4, inputs), f"{layer}.lora_B.weight": (outputs, 4)}
    return Header({name: TensorEntry("F32", shape, 0, 0) for name, shape in shapes.items()}, metadata)


def test_layers_are_known_from_configs_alone() -> None:
    assert set(BASES) == {"dev", "schnell", "xl"}
    assert len(BASES["dev"].layers) == 504
    assert len(BASES["schnell"].layers) == 502


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("black-forest-labs/FLUX.1-dev", "dev"),
        ("Black-Forest-Labs/flux.1-DEV", "dev"),
        ("C:\\models\\unet\\flux1-dev.safetensors", "dev"),
        ("/data/models/black-forest-labs/FLUX.1-dev/", "dev"),
        ("black-forest-labs/FLUX.1-schnell", "schnell"),
        ("rundiffusion/juggernaut-xl", "xl"),
        ("far", "far"),
        ("somebody/else", None),
    ],
)
def test_the_trainer_names_it(said: str, meant: str | None) -> None:
    assert base_model_of(header(base_model=said), CATALOGUE, BASES) == meant


def test_the_most_exact_name_counts() -> None:
    found = header(base_model="somebody/else", ss_base_model_version="sdxl_base_v1-0", ss_sd_model_name="flux1-dev")
    assert base_model_of(found, CATALOGUE, BASES) == "xl"


def test_the_only_one_that_takes_it() -> None:
    guidance = "transformer.time_text_embed.guidance_embedder.linear_1"
    assert base_model_of(header(guidance, 256, 3072), CATALOGUE, BASES) == "dev"
    assert base_model_of(header("unet.time_embedding.linear_1", 320, 1280), CATALOGUE, BASES) == "xl"
    assert base_model_of(header(), CATALOGUE, BASES) is None
    assert base_model_of(header("nothing", 1, 1), CATALOGUE, BASES) is None


def test_a_single_base_model_is_always_meant() -> None:
    alone = Catalogue(base_models={"tiny-flux": TINY})
    assert base_model_of(header("nothing", 1, 1), alone, served_bases(alone)) == "tiny-flux"


def test_text_encoders_count_where_the_slot_covers_them() -> None:
    covered = entry("xl", "sdxl", layout="sdxl-base-1.0", slot={"rank_tiers": [16], "text_encoders": True})
    base = base_of(covered)
    assert base is not None
    assert base.components == {"unet", "text_encoder", "text_encoder_2"}
    assert BASES["xl"].components == {"unet"}
    assert base.family is FAMILIES["sdxl"]


def test_a_layout_that_is_not_there() -> None:
    for layout in ("flux.9", "sdxl-base-1.0"):
        with pytest.raises(CatalogueInvalid, match="is not bundled for its family"):
            base_of(entry("dev", "flux.1", layout=layout))
