"""Admission: from what a caller asks to exactly what a worker will draw, or a refusal that says what is allowed.

Pure but for what it is handed: ``pin`` asks the adapters' sources, ``draw_seed`` draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from api.limits import range_of, shown, takes
from shared.catalogue import BaseModelEntry, Catalogue
from shared.errors import AdapterNotReady, InvalidRequest, UnknownAdapter
from shared.job import JobSpec, PinnedAdapter
from shared.presence import State
from shared.registry import RegisteredAdapter
from shared.request import LARGEST_SEED, AdapterRequest, JobRequest
from shared.sources.identity import Identity
from shared.sources.source import Registered, is_remote, parse
from shared.sources.source import shown as without_secret

Pin = Callable[[str, str], Identity]
"""A source as it was asked for and the field that named it, to the bytes it means now, read with the caller's rights.

For a registered name it only proves those rights. Raises ``RequestError``, ``AdapterError`` or ``AdapterNotReady``.
"""

ByName = Mapping[str, RegisteredAdapter]

MOST_LISTED = 20
"""Names that a refusal lists."""


def admit(
    request: JobRequest,
    catalogue: Catalogue,
    registered: ByName,
    pin: Pin,
    draw_seed: Callable[[], int],
) -> tuple[JobSpec, list[str]]:
    """The job with every default filled in, and warnings about what will have no effect.

    Raises RequestError, which the caller must heed, or AdapterNotReady, which passes.
    """
    entry = catalogue.base_models[_base_model(request, catalogue, registered)]
    width = entry.sizes.default_width if request.width is None else request.width
    height = entry.sizes.default_height if request.height is None else request.height
    steps = entry.sampling.default_steps if request.steps is None else request.steps
    guidance = entry.sampling.default_guidance_scale if request.guidance_scale is None else request.guidance_scale
    _check_ranges({"width": width, "height": height, "steps": steps, "guidance_scale": guidance}, entry)
    adapters = [
        _pin(asked, f"adapters[{place}].source", entry, registered, pin) for place, asked in enumerate(request.adapters)
    ]
    _check_distinct(adapters)
    spec = JobSpec(
        prompt=request.prompt,
        negative_prompt=request.negative_prompt,
        base_model=entry.name,
        adapters=adapters,
        width=width,
        height=height,
        steps=steps,
        guidance_scale=guidance,
        seed=_seed(request, draw_seed),
        num_images=request.num_images,
        format=request.format,
        priority=request.priority,
        deadline_seconds=request.deadline_seconds,
        webhook=request.webhook,
        metadata=request.metadata,
    )
    return spec, _warnings(request, entry)


def unserved(base_model: str, workers: Iterable[tuple[str, State]]) -> list[str]:
    """A warning when none of the living workers serves the base model, or will when it has loaded it."""
    if any(served == base_model and state != "stopping" for served, state in workers):
        return []
    return [f"No worker serves {base_model} right now; the job waits until one does."]


# --- base model -----------------------------------------------------------------------------------


def _base_model(request: JobRequest, catalogue: Catalogue, registered: ByName) -> str:
    if request.base_model is not None and request.base_model not in catalogue.base_models:
        catalogue.get(request.base_model)
    wanted = dict(_wanted(request, catalogue, registered))
    names = sorted(set(wanted.values()))
    if len(names) > 1:
        said = ", ".join(f"{source} is for {base}" for source, base in wanted.items())
        raise InvalidRequest(f"base_model: the job asks for several base models at once: {said}.", field="base_model")
    if not names:
        _check_sources(request, registered)
        raise InvalidRequest(
            f"base_model: name one, because no adapter does; served here: {_listed(catalogue.base_models)}.",
            field="base_model",
        )
    catalogue.get(names[0])
    return names[0]


def _wanted(request: JobRequest, catalogue: Catalogue, registered: ByName) -> Iterable[tuple[str, str]]:
    """What names a base model, and which."""
    if request.base_model is not None:
        yield "base_model", request.base_model
    for place, adapter in enumerate(request.adapters):
        if (known := registered.get(adapter.source)) is not None:
            yield f"adapters[{place}]", known.base_model
        elif request.base_model is None and (coming := _builtin_of(adapter.source, catalogue)) is not None:
            yield f"adapters[{place}]", coming


def _check_sources(request: JobRequest, registered: ByName) -> None:
    # Without a base model a source that is wrong in itself would look like a missing base_model.
    for place, adapter in enumerate(request.adapters):
        field = f"adapters[{place}].source"
        if isinstance(parse(adapter.source, field=field), Registered):
            raise _unknown(adapter.source, field, "", registered)


def _builtin_of(source: str, catalogue: Catalogue) -> str | None:
    return next((name for name, entry in catalogue.base_models.items() if source in entry.builtin_adapters), None)


# --- adapters -------------------------------------------------------------------------------------


def _pin(asked: AdapterRequest, field: str, entry: BaseModelEntry, registered: ByName, pin: Pin) -> PinnedAdapter:
    known = registered.get(asked.source)
    if known is not None:
        if is_remote(known.location):
            # What the name means is known, but whoever asks must still be let read it.
            pin(asked.source, field)
        return _pinned(asked, Identity(known.location, known.revision, known.sha256))
    if not isinstance(parse(asked.source, field=field), Registered):
        return _pinned(asked, pin(asked.source, field))
    if asked.source in entry.builtin_adapters:
        raise AdapterNotReady(
            f"{field}: {asked.source} is being prepared by the first worker of {entry.name}; try again in a while.",
            field=field,
        )
    there = {name: adapter for name, adapter in registered.items() if adapter.base_model == entry.name}
    raise _unknown(asked.source, field, f" for {entry.name}", there)


def _pinned(asked: AdapterRequest, identity: Identity) -> PinnedAdapter:
    return PinnedAdapter(
        source=without_secret(asked.source),
        scale=asked.scale,
        sha256=identity.sha256,
        location=identity.location,
        revision=identity.revision,
    )


def _unknown(source: str, field: str, whose: str, there: ByName) -> UnknownAdapter:
    why = f"is not registered{whose}; registered are: {_listed(there)}"
    return UnknownAdapter(f"{field}: {shown(source)} {why}.", field=field)


def _check_distinct(adapters: Sequence[PinnedAdapter]) -> None:
    first_at: dict[str, int] = {}
    for place, adapter in enumerate(adapters):
        first = first_at.setdefault(adapter.identity, place)
        if first != place:
            field = f"adapters[{place}].source"
            raise InvalidRequest(
                f"{field}: {shown(adapter.source)} is the same adapter as adapters[{first}]; "
                "give it once, with the strengths added up.",
                field=field,
            )


# --- numbers --------------------------------------------------------------------------------------


def _check_ranges(numbers: Mapping[str, float], entry: BaseModelEntry) -> None:
    faults = [
        InvalidRequest(
            f"{field}: {shown(value)} is not allowed; {entry.name} takes {range_of(entry, field)}.", field=field
        )
        for field, value in numbers.items()
        if not takes(entry, field, value)
    ]
    if faults:
        faults[0].others = faults[1:]
        raise faults[0]


def _seed(request: JobRequest, draw_seed: Callable[[], int]) -> int:
    seed = draw_seed() if request.seed is None else request.seed
    last = LARGEST_SEED - request.num_images + 1
    if seed > last:
        raise InvalidRequest(
            f"seed: {seed} is not allowed with num_images {request.num_images}, because image i has seed + i; "
            f"allowed are whole numbers from 0 to {last}.",
            field="seed",
        )
    return seed


def _warnings(request: JobRequest, entry: BaseModelEntry) -> list[str]:
    without_effect = {
        "negative_prompt": bool(request.negative_prompt) and not entry.sampling.negative_prompt,
        "guidance_scale": request.guidance_scale is not None and not entry.sampling.guidance,
    }
    return [f"{field} has no effect on {entry.name}." for field, idle in without_effect.items() if idle]


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    rest = len(ordered) - MOST_LISTED
    return ", ".join(ordered[:MOST_LISTED]) + (f" and {rest} more" if rest > 0 else "") or "none"
