"""From the keys of a file to the modules that they belong to, by the base model's table of names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from shared.adapters.base import BaseLayers
from shared.adapters.header import TensorEntry
from shared.adapters.kinds import named, refusal
from shared.adapters.names import KOHYA_ENDINGS, OLD_ENDINGS, PAIRS, PEFT_ENDINGS, Dialect, Named, NameTable
from shared.errors import AdapterError, AdapterMismatch, AdapterUnsupported
from shared.families.bundled import bundled_models
from shared.families.family import Family, Piece, component_of

ALPHA = ".alpha"

_ENDINGS = {
    **{pair[0]: "down" for pair in PAIRS},
    **{pair[1]: "up" for pair in PAIRS},
    ALPHA: "alpha",
}
_TEXT_ENCODER = re.compile(r"^(text_encoder(_\d)?\.|lora_te\d?_|text_encoders\.)")
_PREFIXES = re.compile(
    r"^(transformer\.|unet\.|text_encoder(_\d)?\.|lora_unet_|lora_te\d?_|lora_transformer_|diffusion_model\.|"
    r"base_model\.model\.|text_encoders\.)"
)


@dataclass
class Module:
    """A layer of the file's own naming, the layers of the base model that it stands for, and its keys."""

    name: str
    pieces: tuple[Piece, ...]
    down: str | None = None
    up: str | None = None
    alpha: str | None = None


@dataclass(frozen=True)
class FileKeys:
    """All keys of a file, by module."""

    modules: tuple[Module, ...]
    dialect: Dialect
    renamed: bool


def read_keys(keys: Iterable[str], base: BaseLayers) -> FileKeys:
    """The modules of a file; an ``AdapterError`` if one of its keys has no meaning for this base model."""
    modules: dict[tuple[Piece, ...], Module] = {}
    dialects: dict[Dialect, str] = {}
    pairs: dict[tuple[str, str], str] = {}
    unknown: list[str] = []
    for key in keys:
        split = _split(key)
        meaning = None if split is None else _meaning(base.names, *split)
        if split is None or meaning is None:
            unknown.append(key)
            continue
        name, ending = split
        module = modules.setdefault(meaning.pieces, Module(name, meaning.pieces))
        _put(module, _ENDINGS[ending], key)
        if ending != ALPHA:
            pairs.setdefault(_pair(ending), key)
            if _told_apart(meaning):
                dialects.setdefault(meaning.dialect, key)
    if unknown:
        raise _explained(unknown, len(modules), base)
    _refuse_mixture([(dialect.value, key) for dialect, key in dialects.items()])
    _refuse_mixture([(f"{pair[0]} / {pair[1]}", key) for pair, key in pairs.items()])
    dialect = next(iter(dialects), Dialect.KOHYA)
    renamed = dialect is not Dialect.DIFFUSERS or PEFT_ENDINGS not in pairs
    return FileKeys(tuple(modules.values()), dialect, renamed)


def _split(key: str) -> tuple[str, str] | None:
    for ending in (*PEFT_ENDINGS, *KOHYA_ENDINGS, *OLD_ENDINGS, ALPHA):
        if key.endswith(ending):
            return key.removesuffix(ending), ending
    return None


def _meaning(names: NameTable, name: str, ending: str) -> Named | None:
    found = names.get(name)
    if found is None or (ending != ALPHA and found.old != (ending in OLD_ENDINGS)):
        return None
    return found


def _put(module: Module, part: str, key: str) -> None:
    if (other := getattr(module, part)) is not None:
        raise AdapterUnsupported(
            f"it names one layer twice, so which one counts is not clear; {named([other, key])}.", reason="ambiguous"
        )
    setattr(module, part, key)


def _told_apart(meaning: Named) -> bool:
    # Text encoders have the same names in kohya's and OneTrainer's files, so only the denoiser tells them apart.
    return meaning.dialect is not Dialect.KOHYA or component_of(meaning.pieces[0].layer) in ("unet", "transformer")


def _pair(ending: str) -> tuple[str, str]:
    return next(pair for pair in PAIRS if ending in pair)


def _refuse_mixture(found: list[tuple[str, str]]) -> None:
    if len(found) > 1:
        (one, first), (other, second) = found[:2]
        raise AdapterUnsupported(
            f"it mixes {one} and {other}, so which one counts is not clear; {named([first, second])}.",
            reason="ambiguous",
        )


# --- keys without a meaning -----------------------------------------------------------------------


def _explained(unknown: list[str], known: int, base: BaseLayers) -> AdapterError:
    """Why these keys have no meaning for this base model; ``known``: how many others have one."""
    spelled = [key for key in unknown if known or _PREFIXES.match(key)]
    strange = [key for key in spelled if _split(key) is None]
    if strange:
        return refusal("unknown_keys", "it holds keys of unknown meaning", strange)
    encoders = [key for key in unknown if _TEXT_ENCODER.match(key)]
    if encoders and not base.components & set(base.family.text_encoders):
        sentence = "it changes the text encoders, which this base model leaves as they are"
        return refusal("text_encoder", sentence, encoders)
    if (other := _other_family(unknown, base.family)) is not None:
        return AdapterMismatch(
            f"it is for another family of base models ({other}), and this one is {base.family.name}; {named(unknown)}.",
            reason="other_family",
        )
    if spelled:
        return AdapterMismatch(f"the base model has no such layers; {named(spelled)}.", reason="no_such_layer")
    return refusal("unknown_names", "it is in no dialect that is known here", unknown)


def _other_family(keys: list[str], own: Family) -> str | None:
    """A family whose published base model knows most of these keys, if any does."""
    best, name = max((known_keys(keys, name), name) for name in bundled_models())
    found = bundled_models()[name].family
    return found.name if best and found is not own else None


def known_keys(keys: Iterable[str], bundled: str) -> int:
    """How many of these keys name a layer of a bundled base model."""
    return len(_meanings(keys, bundled))


def recognise(tensors: Mapping[str, TensorEntry]) -> tuple[str | None, Dialect | None]:
    """The family whose published base models know most of these tensors by name, then by width, and the dialect.

    The family is None where two families know them equally well.
    """
    scores: dict[tuple[int, int], set[str]] = {}
    for name in bundled_models():
        meanings, layers = _meanings(tensors, name), _bundled_base(name).layers
        fitting = sum(
            len(shape := tensors[key].shape) > 1 and shape[1] == layers[meaning.pieces[0].layer].inputs
            for key, meaning in meanings.items()
            if _ENDINGS[(_split(key) or ("", ALPHA))[1]] == "down"
        )
        scores.setdefault((len(meanings), fitting), set()).add(name)
    best = max(scores)
    if not best[0]:
        return None, None
    named_by = scores[best]
    families = {bundled_models()[name].family.name for name in named_by}
    dialects = Counter(
        meaning.dialect for meaning in _meanings(tensors, min(named_by)).values() if _told_apart(meaning)
    ) or Counter([Dialect.KOHYA])
    return families.pop() if len(families) == 1 else None, dialects.most_common(1)[0][0]


def is_text_encoder(key: str) -> bool:
    """Whether a key is of a text encoder, in any dialect."""
    return _TEXT_ENCODER.match(key) is not None


def _meanings(keys: Iterable[str], bundled: str) -> dict[str, Named]:
    names = _bundled_base(bundled).names
    found = {key: _meaning(names, *split) for key in keys if (split := _split(key)) is not None}
    return {key: meaning for key, meaning in found.items() if meaning is not None}


@cache
def _bundled_base(name: str) -> BaseLayers:
    model = bundled_models()[name]
    return BaseLayers(model.family, model.layers(), top_rank=0)
