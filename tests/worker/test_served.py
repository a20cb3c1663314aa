"""What the API knows of a base model's layers is what the worker's model has."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from shared.adapter_layers import LayerShape
from shared.adapters.served import base_of
from shared.catalogue import BaseModelEntry
from shared.errors import CatalogueInvalid
from worker.load import load_pipeline
from worker.tiny_flux import TinyFlux


def test_the_built_in_model_and_its_folder(entry: BaseModelEntry, cache_folder: Path, tiny: TinyFlux) -> None:
    pipeline, _ = load_pipeline(entry, cache_folder)
    expected = {
        f"{component}.{name}": LayerShape(layer.in_features, layer.out_features)
        for component in ("transformer", "text_encoder")
        for name, layer in getattr(pipeline, component).named_modules()
        if isinstance(layer, nn.Linear)
    }
    covered = entry.model_copy(update={"slot": entry.slot.model_copy(update={"text_encoders": True})})
    for source in (entry.source, str(tiny.pipeline_folder)):
        base = base_of(covered.model_copy(update={"source": source}))
        assert base is not None
        assert base.layers == expected
    plain = base_of(entry)
    assert plain is not None
    assert plain.components == {"transformer"}


def test_a_folder_of_another_family(entry: BaseModelEntry, tmp_path: Path) -> None:
    (tmp_path / "transformer").mkdir()
    (tmp_path / "transformer" / "config.json").write_text('{"num_layers": 2}')
    with pytest.raises(CatalogueInvalid, match=r"not one of the family flux\.1"):
        base_of(entry.model_copy(update={"source": str(tmp_path)}))
