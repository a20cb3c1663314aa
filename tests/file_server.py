"""Serves a folder store's links over real HTTP, in a few lines that judge links with the store's own function."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

from shared.errors import HotslotError
from shared.storage_folder import FolderStore, check_link, content_type_of


class FileServer(ThreadingHTTPServer):
    """Give it its store before the first request."""

    store: FolderStore

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: FileServer

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        key = parts.path.removeprefix("/v1/files/")
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        try:
            check_link(
                key,
                query.get("expires", ""),
                query.get("signature", ""),
                time.time(),
                self.server.store.signing_key,
            )
            self._answer(200, self.server.store.path_of(key).read_bytes(), content_type_of(key))
        except HotslotError as error:
            self._answer(error.status, error.message.encode(), "text/plain")

    def _answer(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def running_file_server() -> Iterator[FileServer]:
    with FileServer(("127.0.0.1", 0), _Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
