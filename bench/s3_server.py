"""A real S3 server for tests and benches: SeaweedFS from its wheel, all of it in one process and one folder."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from cli.processes import Command, Process, Say
from shared.errors import Misconfigured

HOST = "127.0.0.1"
BUCKET = "hotslot-tests"
START_S = 120.0
_LISTENERS = ("master", "master.grpc", "volume", "volume.grpc", "filer", "filer.grpc", "s3", "s3.grpc")


@dataclass(frozen=True)
class S3Server:
    """Where it listens, and two key pairs: one that may do all, one that may only use BUCKET."""

    endpoint_url: str
    access_key: str = "hotslot-tests-admin"
    secret_key: str = "a secret that must show nowhere"
    limited_access_key: str = "hotslot-tests-limited"
    limited_secret_key: str = "another secret that must show nowhere"


def find_weed() -> str | None:
    """Return the program: beside this Python, else on PATH."""
    return shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")


class S3Process:
    """The server with its data in ``folder``: it can be killed and started again, and keeps data and address.

    It ends with this process, even if that is killed. ``say`` takes its log.
    """

    def __init__(self, weed: str, folder: Path, say: Say) -> None:
        self._ports = _free_ports()
        self._weed = weed
        self._folder = folder
        self._say = say
        self._process: Process | None = None
        self.server = S3Server(f"http://{HOST}:{self._ports['s3']}")

    def start(self) -> None:
        """Start it and wait until it answers; raises SetupError."""
        command = _command(self._weed, self._folder, self._ports, self.server)
        self._process = Process(Command("s3", tuple(command), os.environ, self._folder), self._say)
        _wait_until_it_answers(self._process, self._ports["s3"])

    def kill(self) -> None:
        """End it at once: its orderly end takes 15 s, and what it has taken is with the operating system."""
        if self._process is None:
            return
        self._process.kill()
        while self._process.wait(START_S) is None:
            pass
        for port in self._ports.values():
            for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                left.unlink()


@contextmanager
def running_s3_server(weed: str, folder: Path) -> Iterator[S3Server]:
    """A server with its data in ``folder``, which ends with the block."""
    with (folder / "server.log").open("w", encoding="utf-8") as log:
        process = S3Process(weed, folder, lambda _, line: print(line, file=log, flush=True))
        try:
            process.start()
            yield process.server
        finally:
            process.kill()


def _free_ports() -> dict[str, int]:
    # All held at once, so that they differ.
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in _LISTENERS]
        for each in sockets:
            each.bind((HOST, 0))
        return {name: each.getsockname()[1] for name, each in zip(_LISTENERS, sockets, strict=True)}


def _command(weed: str, folder: Path, ports: dict[str, int], server: S3Server) -> list[str]:
    identities = folder / "identities.json"
    identities.write_text(json.dumps(_identities(server)))
    listeners = [
        f"-{name.replace('.', '.port.') if '.' in name else name + '.port'}={port}" for name, port in ports.items()
    ]
    return [
        weed,
        "-logtostderr",
        "server",
        f"-dir={folder}",
        f"-ip={HOST}",
        f"-ip.bind={HOST}",
        "-s3",
        f"-s3.config={identities}",
        "-s3.iam=false",
        "-s3.autoCreateBucket=false",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.electionTimeout=1s",
        # Small volumes, but many: each bucket takes seven.
        "-master.volumeSizeLimitMB=32",
        "-volume.max=100",
        *listeners,
    ]


def _identities(server: S3Server) -> dict[str, object]:
    def identity(name: str, key: str, secret: str, actions: list[str]) -> dict[str, object]:
        return {"name": name, "credentials": [{"accessKey": key, "secretKey": secret}], "actions": actions}

    limited = [f"{action}:{BUCKET}" for action in ("Read", "Write", "List")]
    return {
        "identities": [
            identity("admin", server.access_key, server.secret_key, ["Admin", "Read", "Write", "List"]),
            identity("limited", server.limited_access_key, server.limited_secret_key, limited),
        ]
    }


def _wait_until_it_answers(process: Process, port: int) -> None:
    end_s = time.monotonic() + START_S
    while process.status() is None and time.monotonic() < end_s:
        connection = HTTPConnection(HOST, port, timeout=5)
        try:
            connection.request("GET", "/healthz")
            if connection.getresponse().status == HTTPStatus.OK:
                return
        except (OSError, HTTPException):
            pass
        finally:
            connection.close()
        time.sleep(0.1)
    raise Misconfigured(f"SeaweedFS did not start: {process.last_words}")
