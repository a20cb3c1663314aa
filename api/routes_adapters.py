"""Adapters: look into a file, give it a name, keep it in memory, forget the name."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Path
from pydantic import BaseModel, ConfigDict, Field

from api import examples
from api.deps import Services, ServicesHere
from api.limits import shown
from api.views import AdaptersView, AdapterView, adapter_view
from shared.adapters.inspection import Inspection, error_of
from shared.errors import AdapterNotFound, AdapterReserved, InvalidRequest
from shared.registry import RegisteredAdapter

router = APIRouter(prefix="/v1/adapters", tags=["adapters"])

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
_LONGEST_SOURCE = 2048


class InspectRequest(BaseModel):
    """A file to look into."""

    model_config = ConfigDict(extra="forbid")

    source: str = Field(min_length=1, max_length=_LONGEST_SOURCE, examples=["file:mine/sketch.safetensors"])
    base_model: str | None = Field(default=None, description="For which the verdict is; else the one it is for.")


class RegisterRequest(InspectRequest):
    """A file and the name that it gets."""

    name: str = Field(pattern=NAME_PATTERN, examples=["sketch"])


@router.post(
    "/inspect",
    summary="Look into an adapter file",
    responses=examples.inspection() | examples.problems(400, 413, 422, 503),
)
def inspect_adapter(request: Annotated[InspectRequest, Body()], here: ServicesHere) -> Inspection:
    """What the file's header tells, and whether a base model can use it. Nothing is stored; no weights are read."""
    return here.inspector.inspect(request.source, request.base_model)


@router.post(
    "",
    status_code=201,
    summary="Register an adapter",
    responses=examples.adapter(201, "The name is known from now on.") | examples.problems(400, 409, 413, 422, 503),
)
def register_adapter(request: Annotated[RegisterRequest, Body()], here: ServicesHere) -> AdapterView:
    """Give a file a name, after looking into it. A name that is known means the new file from now on."""
    _refuse_reserved(here, request.name, "name")
    inspection = here.inspector.inspect(request.source, request.base_model)
    verdict = inspection.verdict
    if verdict is None:
        served = ", ".join(sorted(here.catalogue.base_models))
        raise InvalidRequest(
            f"base_model: name one, because the file does not tell which it is for; served here: {served}.",
            field="base_model",
        )
    if verdict.outcome == "refused" or verdict.base_model is None or inspection.ranks is None:
        raise error_of(verdict, "source")
    identity = here.sources.open_source(request.source, field="source").identity
    adapter = RegisteredAdapter(
        name=request.name,
        base_model=verdict.base_model,
        sha256=identity.sha256,
        location=identity.location,
        revision=identity.revision,
        rank=inspection.ranks.largest,
        inspection=inspection.model_copy(update={"sha256": identity.sha256}),
    )
    here.registry.put(adapter)
    return adapter_view(adapter, here.registry.pinned())


@router.get("", summary="List adapters", responses=examples.adapters() | examples.problems(503))
def list_adapters(here: ServicesHere) -> AdaptersView:
    """Every registered adapter, by name."""
    found = sorted(here.registry.all().values(), key=lambda adapter: adapter.name)
    pinned = here.registry.pinned()
    return AdaptersView(adapters=[adapter_view(adapter, pinned) for adapter in found])


AdapterName = Annotated[str, Path(description="The name that it was registered with.", examples=["sketch"])]


@router.get(
    "/{name}",
    summary="Read an adapter",
    responses=examples.adapter(200, "The adapter.") | examples.problems(404, 503),
)
def read_adapter(name: AdapterName, here: ServicesHere) -> AdapterView:
    """One registered adapter."""
    return adapter_view(_found(here, name), here.registry.pinned())


@router.post(
    "/{name}/pin",
    summary="Keep an adapter in memory",
    responses=examples.adapter(200, "It is pinned.") | examples.problems(404, 503),
)
def pin_adapter(name: AdapterName, here: ServicesHere) -> AdapterView:
    """Let every worker of its base model fetch and convert it soon, if it has not yet, and keep it in memory.

    The pin belongs to the name: registered anew, the new file is kept. What does not fit into a worker's memory beside
    other pinned adapters is not kept there.
    """
    found = _found(here, name)
    here.registry.pin(name, here.queue.server_time_ms())
    return adapter_view(found, [name])


@router.delete(
    "/{name}/pin",
    summary="Let an adapter go",
    responses=examples.adapter(200, "It is not pinned.") | examples.problems(404, 503),
)
def unpin_adapter(name: AdapterName, here: ServicesHere) -> AdapterView:
    """Let workers evict it from memory like any other. It stays registered."""
    found = _found(here, name)
    here.registry.unpin(name)
    return adapter_view(found, [])


@router.delete(
    "/{name}",
    status_code=204,
    summary="Forget an adapter",
    responses=examples.problems(404, 409, 503),
)
def delete_adapter(name: AdapterName, here: ServicesHere) -> None:
    """Forget a name. The file stays, and jobs that were taken before run with what they were admitted with."""
    _refuse_reserved(here, name, "name")
    if not here.registry.remove(name):
        raise AdapterNotFound(f"No adapter {shown(name)} is registered here.")


def _found(here: Services, name: str) -> RegisteredAdapter:
    found = here.registry.some([name]).get(name)
    if found is None:
        raise AdapterNotFound(f"No adapter {shown(name)} is registered here.")
    return found


def _refuse_reserved(here: Services, name: str, field: str) -> None:
    for entry in here.catalogue.base_models.values():
        if name in entry.builtin_adapters:
            raise AdapterReserved(f"{field}: {shown(name)} comes with {entry.name}; choose another name.", field=field)
