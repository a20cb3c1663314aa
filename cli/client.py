"""A small client of the HTTP API: typed answers, and every failure as an error of our own tree with one sentence."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2
from httpx2 import ServerSentEvent
from pydantic import BaseModel, ValidationError

from cli.answers import Problem, Queues, ReceiptKeys, ServedModels, Workers
from shared.errors import HotslotError, InvalidRequest, StoreUnavailable, Unavailable
from shared.view import ImageView, JobView

CONNECT_S = 5.0
ANSWER_S = 30.0
EVENT_S = 45.0
"""The API sends something on an event stream at least every 15 s."""
NO_CONTENT = 204

Answer = TypeVar("Answer", bound=BaseModel)


class Client:
    """Talks to the API at ``url``; safe to share between threads. Use as a context manager or call ``close``.

    Every method raises Unavailable when the API is not reached, else the error that the API answered with.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._http = httpx2.Client(
            base_url=self.url,
            timeout=httpx2.Timeout(ANSWER_S, connect=CONNECT_S),
            # A proxy cannot reach this machine's own addresses.
            trust_env=not _is_loopback(_host(url)),
        )

    def submit(self, body: dict[str, Any], idempotency_key: str) -> JobView:
        """Submit a job; sent again with the same key it is still one job."""
        headers = {"Idempotency-Key": idempotency_key}
        return self._ask(JobView, "POST", "/v1/jobs", json=body, headers=headers)

    def job(self, job_id: str, wait_s: int = 0) -> JobView:
        """The job now, or when it has ended, or after ``wait_s`` (up to 60)."""
        timeout = httpx2.Timeout(ANSWER_S + wait_s, connect=CONNECT_S)
        params = {"wait": wait_s} if wait_s else {}
        return self._ask(JobView, "GET", f"/v1/jobs/{_part(job_id)}", params=params, timeout=timeout)

    def cancel(self, job_id: str) -> JobView:
        """Cancel the job."""
        return self._ask(JobView, "POST", f"/v1/jobs/{_part(job_id)}/cancel")

    def base_models(self) -> ServedModels:
        """What is served."""
        return self._ask(ServedModels, "GET", "/v1/base-models")

    def queues(self) -> Queues:
        """All queues."""
        return self._ask(Queues, "GET", "/v1/queues")

    def workers(self) -> Workers:
        """All living workers."""
        return self._ask(Workers, "GET", "/v1/workers")

    def receipt_keys(self) -> ReceiptKeys:
        """The public keys of all workers."""
        return self._ask(ReceiptKeys, "GET", "/v1/receipt-keys")

    def events(self, job_id: str, last_id: str) -> Iterator[ServerSentEvent]:
        """The job's events after ``last_id`` ("": from the start); the stream may end before the job does."""
        headers = {"Last-Event-ID": last_id} if last_id else {}
        timeout = httpx2.Timeout(EVENT_S, connect=CONNECT_S)
        path = f"/v1/jobs/{_part(job_id)}/events"
        with self._reached(), self._http.sse(path, headers=headers, timeout=timeout) as source:
            self._check(source.response)
            if source.response.status_code != NO_CONTENT:
                yield from source

    def image(self, image: ImageView) -> bytes:
        """The image file, checked against the job's hash."""
        with self._reached():
            response = self._http.get(image.url, follow_redirects=True)
            self._check(response)
        if hashlib.sha256(response.content).hexdigest() != image.sha256:
            raise StoreUnavailable(f"The image at {image.url} is not the one that the job made; download it again.")
        return response.content

    def close(self) -> None:
        """Give up all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, kind: type[Answer], method: str, path: str, **more: Any) -> Answer:
        with self._reached():
            response = self._http.request(method, path, **more)
            self._check(response)
        try:
            return kind.model_validate_json(response.content)
        except ValidationError as error:
            raise self._stranger(response) from error

    def _check(self, response: httpx2.Response) -> None:
        if response.is_success:
            return
        response.read()
        try:
            problem = Problem.model_validate_json(response.content)
        except ValidationError as error:
            raise self._stranger(response) from error
        raise error_from(problem)

    def _stranger(self, response: httpx2.Response) -> HotslotError:
        return HotslotError(f"{self.url} answered {response.status_code} in another way than Hotslot does; is it one?")

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise Unavailable(f"No Hotslot at {self.url}; start one with: hotslot up") from error
        except httpx2.HTTPError as error:
            raise Unavailable(f"Hotslot at {self.url} did not answer ({type(error).__name__}); try again.") from error


def error_from(problem: Problem) -> HotslotError:
    """The error of our tree that the API named, or one that says as much about retrying."""
    known = {kind.code: kind for kind in _below(HotslotError)}
    kind = known.get(problem.code, Unavailable if problem.retryable else HotslotError)
    return kind(problem.detail, field=problem.field)


def _below(kind: type[HotslotError]) -> Iterator[type[HotslotError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)


def _part(job_id: str) -> str:
    # An id is one part of a path, whatever was typed.
    if not job_id.isalnum() or not job_id.isascii():
        raise InvalidRequest(f"{job_id!r} is not the id of a job.")
    return job_id


def _host(url: str) -> str:
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError) as error:
        raise _no_address(url) from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise _no_address(url)
    return parsed.host


def _no_address(url: str) -> InvalidRequest:
    return InvalidRequest(f"{url!r} is not an address; write it like http://127.0.0.1:8000.")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
