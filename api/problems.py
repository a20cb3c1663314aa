"""Every error as RFC 9457 ``application/problem+json``: a stable code, one sentence, never a stack or a secret."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from api.validation import FieldProblem, findings, is_not_json
from shared.errors import AdapterError, AdapterNotReady, HotslotError, InvalidRequest, SetupError

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2
PREPARING_S = 5
"""How long a worker may take to make its own adapters."""

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_FRAMEWORK = {
    400: ("body_unreadable", "The body cannot be read as JSON."),
    404: ("not_found", "There is nothing at this path; /docs lists what there is."),
    405: ("method_not_allowed", "This method is not allowed here; the Allow header lists those that are."),
    413: ("body_too_large", "The body is larger than this service takes."),
}


class Problem(BaseModel):
    """An error, as RFC 9457 describes it."""

    type: str = Field(description="urn:hotslot:error: and the code.", examples=["urn:hotslot:error:adapter_unknown"])
    title: str = Field(description="The code in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="One sentence that says what to do.")
    code: str = Field(description="Stable and machine-readable.", examples=["adapter_unknown"])
    retryable: bool = Field(description="Whether the same request can succeed later.")
    reason: str | None = Field(default=None, description="Why an adapter is refused, narrower than the code.")
    field: str | None = Field(default=None, description="The field at fault, where there is one.")
    errors: list[FieldProblem] | None = Field(default=None, description="Every fault of a request that has several.")


def make_problem(
    status: int,
    code: str,
    detail: str,
    *,
    retryable: bool = False,
    field: str | None = None,
    errors: Sequence[FieldProblem] | None = None,
) -> Problem:
    """A problem; its type and title follow from the code."""
    return Problem(
        type=f"urn:hotslot:error:{code}",
        title=code.replace("_", " ").capitalize(),
        status=status,
        detail=detail,
        code=code,
        retryable=retryable,
        field=field,
        errors=list(errors) if errors else None,
    )


def answer(problem: Problem, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    """A problem as a response; ``more`` are members of its own."""
    values = problem.model_dump(exclude_none=True) | more
    # As ASCII, because a refused value may hold what UTF-8 cannot say.
    return Response(json.dumps(values), problem.status, headers, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Let the app answer every error with a problem."""
    app.add_exception_handler(HotslotError, _hotslot)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _framework)
    app.add_exception_handler(Exception, _unexpected)


def body_too_large(limit_bytes: int) -> Problem:
    """The refusal of a large body."""
    return make_problem(413, "body_too_large", f"The body is larger than the {limit_bytes} bytes that are taken.")


async def _hotslot(_: Request, error: Exception) -> Response:
    assert isinstance(error, HotslotError)  # noqa: S101 - the handler is registered for this class
    if isinstance(error, SetupError):
        log.error("misconfigured: %s", error.message)
        detail = "This service is not set up rightly; its operator finds the reason in the log."
        return answer(make_problem(error.status, error.code, detail))
    if isinstance(error, InvalidRequest) and error.others:
        found = (error, *error.others)
        return answer(_refusal([FieldProblem(field=str(one.field), message=one.message) for one in found]))
    problem = make_problem(error.status, error.code, error.message, retryable=error.retryable, field=error.field)
    if isinstance(error, AdapterError):
        problem = problem.model_copy(update={"reason": error.reason})
    return answer(problem, _retry_after(error))


def _retry_after(error: HotslotError) -> dict[str, str] | None:
    if error.status != HTTPStatus.SERVICE_UNAVAILABLE or not error.retryable:
        return None
    return {"Retry-After": str(PREPARING_S if isinstance(error, AdapterNotReady) else RETRY_AFTER_S)}


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - the handler is registered for this class
    if (fault := is_not_json(error)) is not None:
        return answer(make_problem(400, "body_unreadable", fault))
    return answer(_refusal(findings(error, request.app.state.services.catalogue)))


def _refusal(found: Sequence[FieldProblem]) -> Problem:
    more = f" ({len(found) - 1} more in errors.)" if len(found) > 1 else ""
    return make_problem(422, InvalidRequest.code, found[0].message + more, field=found[0].field, errors=found)


async def _framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - the handler is registered for this class
    if error.status_code < HTTPStatus.BAD_REQUEST:
        return Response(status_code=error.status_code, headers=error.headers)
    code, detail = _FRAMEWORK.get(error.status_code, ("http_error", HTTPStatus(error.status_code).phrase))
    # The framework names the methods of one route only, and a path here may have several.
    headers = {"Allow": ", ".join(_allowed(request))} if error.status_code == 405 else error.headers
    return answer(make_problem(error.status_code, code, detail), headers)


def _allowed(request: Request) -> list[str]:
    def takes(method: str) -> bool:
        return any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in request.app.routes)

    return [method for method in _METHODS if takes(method)]


async def _unexpected(_: Request, __: Exception) -> Response:
    # The server logs the stack; the caller gets nothing of it.
    detail = "Something went wrong here; the same request may succeed later."
    return answer(make_problem(500, "internal_error", detail, retryable=True))
