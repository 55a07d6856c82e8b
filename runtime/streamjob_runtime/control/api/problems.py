"""Errors as `application/problem+json` (RFC 9457)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from streamjob.client.models import FieldProblem, Problem
from streamjob.errors import StreamJobError
from streamjob_runtime.control.api.refusals import RequestRefused

PROBLEM_JSON = "application/problem+json"

_log = logging.getLogger("streamjob.api")


def problem_response(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    """Return the response for `problem`; empty fields are left out."""
    body = problem.model_dump_json(exclude_defaults=True, exclude={"type"})
    return Response(body, status_code=problem.status, headers=headers, media_type=PROBLEM_JSON)


def install(app: FastAPI) -> None:
    """Make `app` answer every error as a problem."""

    @app.exception_handler(StreamJobError)
    def refused(_: Request, error: StreamJobError) -> Response:
        title, status = type(error).__name__, int(HTTPStatus.CONFLICT)
        if isinstance(error, RequestRefused):
            title, status = error.title, error.status
        errors: Sequence[FieldProblem] = getattr(error, "errors", ())
        return problem_response(
            Problem(title=title, status=status, detail=error.what, fix=error.fix, errors=tuple(errors))
        )

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> Response:
        errors = tuple(_field_problem(entry) for entry in error.errors())
        return problem_response(
            Problem(
                title="Invalid request",
                status=int(HTTPStatus.UNPROCESSABLE_ENTITY),
                detail="; ".join(f"{entry.field}: {entry.message}" for entry in errors),
                errors=errors,
            )
        )

    @app.exception_handler(HTTPException)
    def http_error(_: Request, error: HTTPException) -> Response:
        title = HTTPStatus(error.status_code).phrase
        detail = "" if error.detail == title else str(error.detail)
        headers = dict(error.headers) if error.headers else None
        return problem_response(Problem(title=title, status=error.status_code, detail=detail), headers)

    @app.exception_handler(Exception)
    def unexpected(request: Request, error: Exception) -> Response:
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return problem_response(
            Problem(
                title="Internal error",
                status=int(HTTPStatus.INTERNAL_SERVER_ERROR),
                detail=f"{type(error).__name__} while answering {request.method} {request.url.path}",
                fix="Look for the cause in the job's log.",
            )
        )


def _field_problem(entry: dict[str, Any]) -> FieldProblem:
    place = [str(part) for part in entry["loc"]]
    inside = place[1:] if place[0] in ("body", "query", "path", "header") else place
    if entry["type"] == "json_invalid":
        return FieldProblem(field="body", message=f"is not JSON: {entry.get('ctx', {}).get('error', entry['msg'])}")
    return FieldProblem(field=".".join(inside) or place[0], message=str(entry["msg"]).removeprefix("Value error, "))
