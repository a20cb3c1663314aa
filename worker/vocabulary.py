"""Words that a base model never learned: it draws something all the same, so the job is told."""

from __future__ import annotations

from collections.abc import Sequence

from shared.catalogue import BaseModelEntry
from shared.job import JobSpec
from worker.playground.adapters import trigger_words
from worker.playground.language import unknown_words
from worker.tiny_flux import SOURCE

MOST_TOLD = 8
BUILTIN = "builtin:"


def strange_words(entry: BaseModelEntry, spec: JobSpec) -> list[str]:
    """A warning that names the words outside the closed language of ``tiny-flux``; none for other base models."""
    if entry.source != SOURCE:
        return []
    names = [
        adapter.location.removeprefix(BUILTIN) for adapter in spec.adapters if adapter.location.startswith(BUILTIN)
    ]
    words = unknown_words(spec.prompt, trigger_words(names))
    return [_warning(words)] if words else []


def _warning(words: Sequence[str]) -> str:
    shown = ", ".join(repr(word[:40]) for word in words[:MOST_TOLD])
    more = f" and {len(words) - MOST_TOLD} more" if len(words) > MOST_TOLD else ""
    return f"The base model does not know these words of the prompt: {shown}{more}."
