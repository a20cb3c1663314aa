"""Which built-in adapters belong to which base model."""

from __future__ import annotations

import pytest

from shared.catalogue import read_catalogue
from shared.errors import CatalogueInvalid
from worker.builtin import builtin_adapters
from worker.tiny_flux import tiny_flux

ENTRY = read_catalogue().get("tiny-flux")


def test_the_bundled_catalogue_gives_all_to_its_only_base_model() -> None:
    assert builtin_adapters(ENTRY) == dict(tiny_flux().adapters)


def test_two_base_models_with_the_same_files_share_no_name() -> None:
    one = ENTRY.model_copy(update={"builtin_adapters": ("night", "mosaic")})
    other = ENTRY.model_copy(update={"name": "tiny-two", "builtin_adapters": ("star",)})
    assert set(builtin_adapters(one)) == {"night", "mosaic"}
    assert set(builtin_adapters(other)) == {"star"}


def test_a_name_without_a_file_is_refused() -> None:
    with pytest.raises(CatalogueInvalid, match=r"tiny-flux names ember; .* has .*night"):
        builtin_adapters(ENTRY.model_copy(update={"builtin_adapters": ("ember",)}))


def test_a_base_model_that_is_not_built_in_has_none() -> None:
    assert builtin_adapters(ENTRY.model_copy(update={"source": "/models/flux"})) == {}
