"""The access log: one short line, no query, no line breaks."""

from __future__ import annotations

import logging

import pytest

from tests.api.live import Live, until


def test_one_line_without_the_query(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="hotslot.access"):
        live.http.get("/v1/files/jobs/x?expires=1&signature=s3cret")
        live.http.get("/v1/a%0AERROR%20fake")
        live.http.get("/v1/" + "x" * 1000)
        live.http.get("/healthz")
        live.http.get("/v1/workers")
        until(lambda: len(caplog.records) >= 3)
    lines = [record.getMessage() for record in caplog.records if record.name == "hotslot.access"]
    assert lines[0].startswith("GET /v1/files/jobs/x 403 ")
    assert lines[0].endswith(" ms")
    assert lines[1].startswith("GET /v1/a%0AERROR%20fake 404 ")
    assert len(lines) == 3
    assert all(len(line) < 250 and "s3cret" not in line and "\n" not in line for line in lines)
