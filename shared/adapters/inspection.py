"""What inspection says of an adapter file: the facts of its header, and a verdict for a base model."""

from __future__ import annotations

import re
from collections import Counter
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from shared.adapters.base import BaseLayers
from shared.adapters.facts import facts_of, modelspec, naming, trigger_words
from shared.adapters.header import Header, read_header
from shared.adapters.plan import AdapterPlan, plan_adapter
from shared.adapters.source import Opened
from shared.errors import AdapterError


class _View(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Verdict(_View):
    """Whether a base model can use the file."""

    base_model: str | None = Field(description="For which base model; null where the file is refused by all.")
    outcome: Literal["fits", "converts", "refused"] = Field(
        description="fits: in diffusers' own names; converts: in others, which are translated exactly."
    )
    code: str | None = Field(default=None, description="Why it is refused: the code of the error.")
    reason: str | None = Field(default=None, description="The same, narrower: dora, control, shape, cut_off ...")
    sentence: str | None = Field(default=None, description="The same, for people.")


class Ranks(_View):
    """Ranks over the layers of the file."""

    smallest: int
    largest: int
    layers: dict[int, int] = Field(description="How many layers have each rank.")


class Trained(_View):
    """What the trainer wrote into the file about itself."""

    base_model: list[str] = Field(description="Names of the base model, the most exact first.")
    trigger_words: list[str]
    modelspec: dict[str, str]


class Inspection(_View):
    """An adapter file, told from its header. What could not be read is null."""

    size_bytes: int
    sha256: str | None = Field(description="Where it is known without reading the file.")
    verdict: Verdict | None = Field(description="Null where it is not clear which base model is meant.")
    family: str | None = None
    dialect: str | None = None
    tensors: int | None = None
    dtypes: dict[str, int] | None = Field(default=None, description="How many tensors are stored as each.")
    ranks: Ranks | None = None
    alphas: Literal["all", "some", "none"] | None = Field(default=None, description="Layers that bring their alpha.")
    text_encoder_keys: int | None = None
    targets: dict[str, int] | None = Field(default=None, description="Layers it changes, with * for block numbers.")
    trained: Trained | None = None


def inspect_header(header: Header, opened: Opened, base: BaseLayers | None, base_model: str | None) -> Inspection:
    """The facts of a header that was read, and the verdict for the base model where one is given."""
    facts = facts_of(header)
    plan: AdapterPlan | None = None
    verdict = None
    if base is not None:
        try:
            plan = plan_adapter(header, base)
            verdict = Verdict(base_model=base_model, outcome="converts" if plan.renamed else "fits")
        except AdapterError as error:
            verdict = refused(error, base_model)
    return Inspection(
        size_bytes=opened.size_bytes,
        sha256=opened.sha256,
        verdict=verdict,
        family=facts.family if plan is None or base is None else base.family.name,
        dialect=dialect.value if (dialect := plan.dialect if plan else facts.dialect) else None,
        tensors=len(header.tensors),
        dtypes=facts.dtypes,
        ranks=Ranks(smallest=min(facts.ranks), largest=max(facts.ranks), layers=facts.ranks) if facts.ranks else None,
        alphas="none" if not facts.alphas else "all" if facts.alphas >= facts.modules else "some",
        text_encoder_keys=facts.text_encoder_keys,
        targets=_targets(plan) if plan else None,
        trained=Trained(
            base_model=naming(header.metadata),
            trigger_words=trigger_words(header.metadata),
            modelspec=modelspec(header.metadata),
        ),
    )


def inspect(opened: Opened, base: BaseLayers | None, base_model: str | None) -> Inspection:
    """Read the header and judge it; a file that cannot be read is refused, not an error.

    What the source raises passes through, unless it is an ``AdapterError``.
    """
    try:
        header = read_header(opened.read_range, opened.size_bytes)
    except AdapterError as error:
        return unreadable(error, opened, base_model)
    return inspect_header(header, opened, base, base_model)


def unreadable(error: AdapterError, opened: Opened, base_model: str | None = None) -> Inspection:
    """All that can be said of a file whose header cannot be read."""
    return Inspection(size_bytes=opened.size_bytes, sha256=opened.sha256, verdict=refused(error, base_model))


def refused(error: AdapterError, base_model: str | None) -> Verdict:
    """The verdict that an error is."""
    return Verdict(
        base_model=base_model, outcome="refused", code=error.code, reason=error.reason, sentence=error.message
    )


def error_of(verdict: Verdict, field: str) -> AdapterError:
    """The error that a refusal is, as the answer to a request that named the file in ``field``."""
    kinds = {kind.code: kind for kind in AdapterError.__subclasses__()}
    return kinds.get(verdict.code or "", AdapterError)(
        f"{field}: {verdict.sentence}", field=field, reason=verdict.reason
    )


def _targets(plan: AdapterPlan) -> dict[str, int]:
    return dict(sorted(Counter(re.sub(r"(?<=\.)\d+(?=\.)", "*", layer.layer) for layer in plan.layers).items()))
