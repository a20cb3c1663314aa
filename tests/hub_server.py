"""A hub for tests: the few routes that are needed of the real one, over real HTTP, with commits that do not change."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.source_server import Served, SourceHandler, SourceServer, running

_API = re.compile(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?")
_RESOLVE = re.compile(r"/([^/]+/[^/]+)/resolve/([0-9a-f]{40})/(.+)")


@dataclass
class Repository:
    """Commits by their ids, branches by name. ``token``: who may read it; ``gated``: terms are not accepted."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    token: str | None = None
    gated: bool = False
    plain: bool = False
    """Files lie in the repository itself, so the hub tells no SHA-256."""

    def commit(self, files: dict[str, bytes], branch: str = "main") -> str:
        text = json.dumps([branch, len(self.commits), sorted(files)]).encode() + b"".join(files.values())
        commit = hashlib.sha1(text).hexdigest()
        self.commits[commit] = files
        self.branches[branch] = commit
        return commit


class HubServer(SourceServer):
    """``cdn``: another server, to which downloads are redirected, as the real hub does for large files."""

    def __init__(self) -> None:
        super().__init__()
        self.RequestHandlerClass = _Handler
        self.repositories: dict[str, Repository] = {}
        self.cdn: SourceServer | None = None

    def repository(self, name: str, **how: object) -> Repository:
        self.repositories[name] = Repository(**how)  # type: ignore[arg-type]
        return self.repositories[name]


class _Handler(SourceHandler):
    server: HubServer

    def route(self, path: str) -> None:
        if found := _API.fullmatch(path):
            self._tell(found[1], found[2] or "main")
        elif found := _RESOLVE.fullmatch(path):
            self._resolve(found[1], found[2], found[3])
        else:
            self.answer(404, b"{}")

    def _repository(self, name: str) -> Repository | None:
        repository = self.server.repositories.get(name)
        said = self.headers.get("authorization")
        if repository is None or (repository.token and said != f"Bearer {repository.token}"):
            self.answer(401, b"{}", {"X-Error-Code": "RepoNotFound"})
            return None
        if repository.gated:
            self.answer(403, b"{}", {"X-Error-Code": "GatedRepo"})
            return None
        return repository

    def _tell(self, name: str, revision: str) -> None:
        if (repository := self._repository(name)) is None:
            return
        commit = repository.branches.get(revision, revision)
        if commit not in repository.commits:
            self.answer(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
            return
        siblings = [_sibling(path, body, repository.plain) for path, body in repository.commits[commit].items()]
        told = {"id": name, "modelId": name, "sha": commit, "siblings": siblings}
        self.answer(200, json.dumps(told).encode(), {"Content-Type": "application/json"})

    def _resolve(self, name: str, commit: str, file: str) -> None:
        if (repository := self._repository(name)) is None:
            return
        body = repository.commits.get(commit, {}).get(file)
        if body is None:
            self.answer(404, b"", {"X-Error-Code": "EntryNotFound"})
        elif self.server.cdn is None:
            self.send_file(Served(body))
        else:
            path = f"/{hashlib.sha256(body).hexdigest()}"
            self.server.cdn.files.setdefault(path, Served(body))
            self.answer(302, b"", {"Location": f"{self.server.cdn.url}{path}?Signature=signed-by-the-hub"})


def _sibling(path: str, body: bytes, plain: bool) -> dict[str, object]:
    sha256 = hashlib.sha256(body).hexdigest()
    told: dict[str, object] = {"rfilename": path, "size": len(body), "blobId": hashlib.sha1(body).hexdigest()}
    return told if plain else told | {"lfs": {"sha256": sha256, "size": len(body), "pointerSize": 130}}


@contextmanager
def running_hub() -> Iterator[HubServer]:
    with running(HubServer) as server:
        assert isinstance(server, HubServer)
        yield server
