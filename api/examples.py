"""The answers that the documentation shows, made by the code that makes the real ones."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from api import example_values as v
from api import problems as p
from api.metrics import MEDIA_TYPE, QueueNumbers, exposition
from api.validation import FieldProblem
from api.views import (
    AdaptersView,
    AdapterView,
    AliveView,
    BaseModelsView,
    GroupView,
    JobsPage,
    PartView,
    PausedView,
    QueuesView,
    ReadyView,
    ReceiptKeysView,
    WorkersView,
    adapter_view,
    base_model_view,
    queue_view,
    worker_view,
)
from shared.catalogue import read_catalogue
from shared.job import Status
from shared.registry import RegisteredAdapter
from shared.view import JobView

Responses = dict[int | str, dict[str, Any]]

_SHOWN_JOBS = {200: ("queued", "running", "succeeded", "cancelled"), 202: ("queued", "running")}


_HELD: dict[str, Any] = {}


def _hold(value: BaseModel) -> str:
    """A word that stands for an example until ``fill``: FastAPI's generator drops every null in what it handles."""
    word = f"hotslot-example-{len(_HELD)}"
    _HELD[word] = value.model_dump(mode="json")
    return word


def fill(node: Any) -> Any:
    """A document with every example in its place."""
    if isinstance(node, dict):
        return {name: fill(value) for name, value in node.items()}
    if isinstance(node, list):
        return [fill(value) for value in node]
    return _HELD.get(node, node) if isinstance(node, str) else node


def _json(description: str, **shown: BaseModel) -> dict[str, Any]:
    examples = {name: {"value": _hold(value)} for name, value in shown.items()}
    return {"description": description, "content": {"application/json": {"examples": examples}}}


def job(status: int, description: str = "The job.") -> Responses:
    """A job as the answer, with examples of it."""
    shown = {name: v.JOBS[name] for name in _SHOWN_JOBS[status]}
    return {status: {"model": JobView} | _json(description, **shown)}


def jobs_page() -> Responses:
    """A page of jobs."""
    cursor = "MTc3MjM2NjQwMDI1MC4wMUtKOVFaN1c1VjBUM044MlM0WDZCMUFE"
    return {200: _json("A page of jobs.", one=JobsPage(jobs=[v.JOBS["queued"]], next_cursor=cursor))}


def events() -> Responses:
    """The stream, and the end of it."""
    text = (
        'event: queued\ndata: {"reason":"submitted"}\nid: 1772366400250-0\nretry: 2000\n\n'
        'event: progress\ndata: {"step":1,"steps":8}\nid: 1772366400390-0\n\n'
        f'event: succeeded\ndata: {{"job":"{v.ID}"}}\nid: 1772366401150-0\n\n'
    )
    return {
        200: {"description": "The events.", "content": {"text/event-stream": {"example": text}}},
        204: {"description": "Last-Event-ID was the job's end; nothing will follow."},
    }


def redirect() -> Responses:
    """The redirect to a fresh link."""
    header = {"description": "A fresh link.", "schema": {"type": "string", "format": "uri"}}
    return {307: {"description": "Look there, soon.", "headers": {"Location": header}}}


def image_bytes() -> Responses:
    """An image file."""
    schema = {"schema": {"type": "string", "format": "binary"}, "example": "(the file's bytes)"}
    kinds = ("image/png", "image/jpeg", "image/webp")
    return {200: {"description": "The file.", "content": dict.fromkeys(kinds, schema)}}


def base_models() -> Responses:
    """What is served."""
    entry = read_catalogue().base_models["tiny-flux"]
    outline = RegisteredAdapter(
        name="outline", base_model="tiny-flux", sha256=v.SHA256, location="builtin:outline", rank=16
    )
    view = BaseModelsView(base_models=[base_model_view(entry, [outline], [v.WORKER])])
    return {200: _json("What is served.", served=view)}


def inspection() -> Responses:
    """What inspection says."""
    return {200: _json("What the file holds.", taken=v.INSPECTION, refused=v.REFUSED)}


def adapter(status: int, description: str) -> Responses:
    """A registered adapter."""
    return {status: {"model": AdapterView} | _json(description, registered=adapter_view(v.SKETCH, []))}


def adapters() -> Responses:
    """All registered adapters."""
    return {200: _json("All registered adapters.", all=AdaptersView(adapters=[adapter_view(v.SKETCH, [])]))}


def queues() -> Responses:
    """All queues."""
    groups = [GroupView(adapters=["outline"], waiting=3, oldest_wait_ms=420, overtaken=1)]
    stats = {"claims": 24, "swaps": 5, "overtaken_max": 4}
    served = queue_view("tiny-flux", 3, groups, 1, [v.WORKER], stats, is_served=True, is_paused=False)
    unserved = queue_view("tiny-flux", 3, groups, 0, [], stats, is_served=True, is_paused=False)
    return {200: _json("All queues.", served=QueuesView(queues=[served]), unserved=QueuesView(queues=[unserved]))}


def paused(*, is_paused: bool) -> Responses:
    """Whether a queue or worker is held back."""
    return {200: _json("Whether jobs are held back now.", one=PausedView(paused=is_paused))}


def workers() -> Responses:
    """Living workers."""
    return {200: _json("All living workers.", one=WorkersView(workers=[worker_view(v.WORKER)]))}


def metrics() -> Responses:
    """Some of the numbers."""
    numbers = QueueNumbers("tiny-flux", 3, 1, {"claims": 24, "swaps": 5}, {"hits_memory": 18, "hits_remote": 2})
    text = exposition([numbers], {Status.QUEUED: 3, Status.RUNNING: 1, Status.SUCCEEDED: 20}, [v.WORKER])
    return {
        200: {"description": "The numbers.", "content": {MEDIA_TYPE: {"schema": {"type": "string"}, "example": text}}}
    }


def receipt_keys() -> Responses:
    """Public keys."""
    return {200: _json("All public keys.", one=ReceiptKeysView(keys=[v.RECEIPT_KEY]))}


def alive() -> Responses:
    """The process is up."""
    return {200: _json("The process is up.", up=AliveView(status="ok"))}


def ready() -> Responses:
    """Everything is there."""
    parts = {name: PartView(ok=True, detail="") for name in ("redis", "store")}
    return {200: _json("Jobs can be taken.", ready=ReadyView(ready=True, parts=parts))}


_SIZE = FieldProblem(field="width", message="width: 72 is not allowed; tiny-flux takes multiples of 16 from 32 to 256.")
_PROBLEMS: dict[int, dict[str, p.Problem]] = {
    400: {"not JSON": p.make_problem(400, "body_unreadable", "The body is not JSON: Expecting value at character 0.")},
    403: {"expired": p.make_problem(403, "link_refused", "This link has expired: take a fresh one from the job.")},
    404: {"never seen": p.make_problem(404, "job_not_found", f"No job '{v.ID}' is known here.")},
    409: {
        "key used": p.make_problem(
            409, "idempotency_key_reused", "This Idempotency-Key was used for another job; send a new key."
        ),
        "name taken": p.make_problem(
            409, "adapter_reserved", 'name: "outline" comes with tiny-flux; choose another name.', field="name"
        ),
        "finished": p.make_problem(409, "job_finished", "The job has already succeeded."),
    },
    410: {"past retention": p.make_problem(410, "job_gone", f"Job {v.ID} is past its retention of 604800 seconds.")},
    413: {"too large": p.body_too_large(262_144)},
    422: {
        "size": p.make_problem(422, "invalid_request", _SIZE.message, field="width", errors=[_SIZE]),
        "unknown adapter": p.make_problem(
            422,
            "adapter_unknown",
            'adapters[0].source: "outlin" is not registered for tiny-flux; registered are: night, outline.',
            field="adapters[0].source",
        ),
    },
    503: {
        "away": p.make_problem(
            503,
            "queue_unavailable",
            "The job server (Redis or Valkey) does not answer; try again in a few seconds.",
            retryable=True,
        )
    },
}
_MEANINGS = {
    400: "The body is not JSON.",
    403: "The link is altered or has expired.",
    404: "Never seen here.",
    409: "It contradicts what is there.",
    410: "Past retention.",
    413: "The body is too large.",
    422: "The request must be changed; the answer says how.",
    503: "Try again later.",
}


def problems(*statuses: int) -> Responses:
    """Errors that a route may answer with, as ``application/problem+json``."""
    return {status: _problem(status) for status in statuses}


def _problem(status: int) -> dict[str, Any]:
    examples = {name: {"value": shown.model_dump(exclude_none=True)} for name, shown in _PROBLEMS[status].items()}
    content = {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": examples}
    described: dict[str, Any] = {"description": _MEANINGS[status], "content": {p.MEDIA_TYPE: content}}
    if status == 503:
        described["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
    return described
