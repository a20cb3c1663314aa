"""What the API knows of a base model's layers is what the worker's model has."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from shared.adapter_layers import LayerShape
from shared.adapters.served import base_of
from shared.catalogue import BaseModelEntry, read_catalogue
from shared.errors import CatalogueInvalid
from worker.load import load_pipeline
from worker.tiny_flux import tiny_flux


@pytest.fixture(params=["built in", "folder", "random"])
def served(request: pytest.FixtureRequest, entry: BaseModelEntry) -> BaseModelEntry:
    if request.param == "random":
        return entry
    builtin = read_catalogue().get("tiny-flux")
    folder = str(tiny_flux().pipeline_folder)
    return builtin if request.param == "built in" else builtin.model_copy(update={"source": folder})


def test_the_layers_are_those_of_the_loaded_model(served: BaseModelEntry) -> None:
    pipeline, _ = load_pipeline(served)
    expected = {
        f"{component}.{name}": LayerShape(layer.in_features, layer.out_features)
        for component in ("transformer", "text_encoder")
        for name, layer in getattr(pipeline, component).named_modules()
        if isinstance(layer, nn.Linear)
    }
    covered = served.model_copy(update={"slot": served.slot.model_copy(update={"text_encoders": True})})
    base = base_of(covered)
    assert base is not None
    assert base.layers == expected
    plain = base_of(served)
    assert plain is not None
    assert plain.components == {"transformer"}


def test_a_folder_of_another_family(entry: BaseModelEntry, tmp_path: Path) -> None:
    (tmp_path / "transformer").mkdir()
    (tmp_path / "transformer" / "config.json").write_text('{"num_layers": 2}')
    with pytest.raises(CatalogueInvalid, match=r"not one of the family flux\.1"):
        base_of(entry.model_copy(update={"source": str(tmp_path)}))
