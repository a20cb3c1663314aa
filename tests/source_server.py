"""A web server of adapter files for tests: real sockets, ranges, versions, cut connections, counted bytes."""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

_CHUNK_BYTES = 1 << 16


@dataclass
class Served:
    """One file, from memory or from disk, and how it is served. ``cuts``: after so many bytes of a body hang up."""

    body: bytes | Path
    headers: dict[str, str] = field(default_factory=lambda: {"ETag": '"v1"'})
    ranges: bool = True
    status: int = 0
    cuts: list[int] = field(default_factory=list)
    head_pause_s: float = 0.0
    chunk_pause_s: float = 0.0
    with_length: bool = True

    @property
    def size_bytes(self) -> int:
        return len(self.body) if isinstance(self.body, bytes) else self.body.stat().st_size

    def read(self, begin: int, length: int) -> bytes:
        if isinstance(self.body, bytes):
            return self.body[begin : begin + length]
        with self.body.open("rb") as file:
            file.seek(begin)
            return file.read(length)


@dataclass(frozen=True)
class Asked:
    """One request; header names are lower-case."""

    path: str
    headers: dict[str, str]


class SourceServer(ThreadingHTTPServer):
    """Serves ``files`` by path, redirects ``moved`` paths, remembers what was ``asked`` and how much was ``sent``."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), SourceHandler)
        self.files: dict[str, Served] = {}
        self.moved: dict[str, str] = {}
        self.asked: list[Asked] = []
        self.sent_bytes = 0
        self.guard = threading.Lock()
        self.leave = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def serve(self, path: str, body: bytes | Path, **how: object) -> str:
        """The URL of a file that is served from now on."""
        self.files[path] = Served(body, **how)  # type: ignore[arg-type]
        return self.url + path

    def asked_for(self, path: str) -> list[Asked]:
        return [one for one in self.asked if urlsplit(one.path).path == path]

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients may hang up."""


class SourceHandler(BaseHTTPRequestHandler):
    server: SourceServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.server.guard:
            self.server.asked.append(Asked(self.path, headers))
        self.route(path)

    def route(self, path: str) -> None:
        if path in self.server.moved:
            self.answer(302, b"", {"Location": self.server.moved[path]})
        elif (served := self.server.files.get(path)) is None:
            self.answer(404, b"nothing here")
        elif served.status:
            self.answer(served.status, b"no")
        else:
            self.send_file(served)

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def send_file(self, served: Served) -> None:
        self.server.leave.wait(served.head_pause_s)
        size = served.size_bytes
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", "")) if served.ranges else None
        begin, end = (int(asked[1]), min(int(asked[2] or size - 1) + 1, size)) if asked else (0, size)
        if asked and begin >= size:
            self.answer(416, b"", {"Content-Range": f"bytes */{size}", **served.headers})
            return
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{size}")
        if served.with_length:
            self.send_header("Content-Length", str(end - begin))
        else:
            self.close_connection = True
        for name, value in served.headers.items():
            self.send_header(name, value)
        self.end_headers()
        cut = served.cuts.pop(0) if served.cuts else None
        self._send_body(served, begin, end, cut)

    def _send_body(self, served: Served, begin: int, end: int, cut: int | None) -> None:
        stop = end if cut is None else min(end, begin + cut)
        while begin < stop and not self.server.leave.is_set():
            piece = served.read(begin, min(_CHUNK_BYTES, stop - begin))
            self.wfile.write(piece)
            begin += len(piece)
            with self.server.guard:
                self.server.sent_bytes += len(piece)
            self.server.leave.wait(served.chunk_pause_s)
        if stop < end:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Keep the tests quiet."""


@contextmanager
def running(
    make: Callable[[], SourceServer] = SourceServer, tls: ssl.SSLContext | None = None
) -> Iterator[SourceServer]:
    with make() as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.leave.set()
            server.shutdown()
            thread.join()
