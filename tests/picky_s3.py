"""An S3 server, in memory, that answers 400 to the checksum headers some stores do not know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

UNKNOWN_HEADERS = ("x-amz-checksum-", "x-amz-sdk-", "x-amz-trailer", "x-amz-meta-")


class PickyS3(ThreadingHTTPServer):
    """``seen`` holds the headers of every request, ``objects`` what was put, by path."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: PickyS3
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        path = urlsplit(self.path).path
        self.server.seen.append((f"{self.command} {path}", headers))
        chunked = "aws-chunked" in headers.get("content-encoding", "") or "transfer-encoding" in headers
        if chunked or any(name.startswith(UNKNOWN_HEADERS) for name in headers):
            self._answer(400, b"<Error><Code>InvalidArgument</Code></Error>")
        elif self.command == "PUT":
            self.server.objects[path] = body
            self._answer(200, b"")
        elif self.command == "DELETE":
            self.server.objects.pop(path, None)
            self._answer(204, b"")
        elif path in self.server.objects:
            self._answer(200, self.server.objects[path])
        else:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    do_GET = do_HEAD = do_PUT = do_DELETE = _serve  # noqa: N815

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def running_picky_s3() -> Iterator[PickyS3]:
    with PickyS3() as server:
        # Kept-alive connections must not keep the test from ending.
        server.daemon_threads = True
        server.block_on_close = False
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
