"""A slow web server: files from memory, each connection held to a number of bytes per second."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

TICK_S = 0.02


class SlowServer(ThreadingHTTPServer):
    """Serves ``files`` by path. ``bytes_per_s``: 0 for as fast as it can."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.bytes_per_s = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: SlowServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.server.files.get(self.path)
        if body is None:
            self.send_error(404)
            return
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        begin = int(asked[1]) if asked else 0
        end = min(int(asked[2]) + 1, len(body)) if asked and asked[2] else len(body)
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(body)}")
        self.send_header("Content-Length", str(end - begin))
        self.send_header("ETag", f'"{sha256(body).hexdigest()}"')
        self.end_headers()
        self._send_slowly(body[begin:end])

    def _send_slowly(self, body: bytes) -> None:
        started_s, sent = time.monotonic(), 0
        while sent < len(body):
            rate = self.server.bytes_per_s
            due = int((time.monotonic() - started_s + TICK_S) * rate) if rate else len(body)
            self.wfile.write(body[sent:due])
            sent = max(sent, min(due, len(body)))
            if sent < len(body):
                time.sleep(TICK_S)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def running_slow_server() -> Iterator[SlowServer]:
    """A server that ends with the block."""
    with SlowServer() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
