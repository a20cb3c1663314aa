"""The OpenAPI document: FastAPI's own, with the one form of error that every route may answer with."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from api.examples import fill
from api.problems import Problem

TAGS = [
    {"name": "jobs", "description": "Submit jobs and see what comes of them."},
    {"name": "images", "description": "Fetch what jobs made."},
    {"name": "adapters", "description": "Look into adapter files, and give them names."},
    {"name": "status", "description": "See what is served, what waits, and who works."},
]
DESCRIPTION = """Images from many LoRA adapters on few resident base models.

Submit a job, then wait for it with `GET /v1/jobs/{id}?wait=60`, follow its events, or have it reported by webhook.
Every error is `application/problem+json` with a stable `code`; unknown fields are refused."""


def install(app: FastAPI) -> None:
    """Let the app describe itself."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _describe(app)
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]


def _describe(app: FastAPI) -> dict[str, Any]:
    schema = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
    )
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas = schema.setdefault("components", {}).setdefault("schemas", {})
    schemas.update(problem.pop("$defs", {}))
    schemas["Problem"] = problem
    _drop_foreign_errors(schema)
    filled: dict[str, Any] = fill(schema)
    return filled


def _drop_foreign_errors(schema: dict[str, Any]) -> None:
    # FastAPI adds its own form of error wherever a route has a parameter; none of ours answers with it.
    for name in ("HTTPValidationError", "ValidationError"):
        schema["components"]["schemas"].pop(name, None)
    for path in schema["paths"].values():
        for operation in path.values():
            if "application/json" in operation["responses"].get("422", {}).get("content", {}):
                del operation["responses"]["422"]
