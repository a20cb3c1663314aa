"""``hf:`` sources: a model repository on the hub, pinned to a commit. The only file that knows huggingface_hub."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2

from shared.errors import (
    AdapterAmbiguous,
    AdapterForbidden,
    AdapterUnreadable,
    InvalidRequest,
    SourceUnavailable,
    UnknownAdapter,
)
from shared.settings import Settings
from shared.sources.identity import Identity
from shared.sources.opened import Opened
from shared.sources.origin import OnSize, Sink, check_size
from shared.sources.source import SUFFIX, HubFile
from shared.sources.web import Head, Web
from shared.sources.web_range import WebPart

if TYPE_CHECKING:
    from huggingface_hub import HfApi

READ_BUDGET_S = 30.0
MOST_LISTED = 20
"""Files that a refusal lists."""


@dataclass(frozen=True)
class _Found:
    commit: str
    file: str
    size_bytes: int | None
    sha256: str | None


class HubOrigin:
    """See :class:`shared.sources.origin.Origin`. Commits never change, so what a pinned file holds never does."""

    def __init__(self, settings: Settings, web: Web) -> None:
        self._endpoint = settings.hf_endpoint
        self._token = settings.hf_token.get_secret_value() if settings.hf_token else None
        self._largest_bytes = settings.adapter_largest_bytes
        self._web = web

    def open(self, source: HubFile, budget_s: float) -> Opened:
        """One request tells commit, files and sizes, with the rights of the service's token."""
        found = self._find(source, budget_s)
        pinned = HubFile(source.repo, found.commit, found.file)
        if found.size_bytes is None:
            raise AdapterUnreadable(f"the hub does not tell the size of {found.file}.")
        check_size(found.size_bytes, self._largest_bytes)
        identity = Identity(location=pinned.text, revision=found.commit, sha256=found.sha256)

        def read_range(offset: int, length: int) -> bytes:
            return self._part(pinned).read(offset, length, READ_BUDGET_S)

        return Opened(identity, found.size_bytes, read_range)

    def download(
        self, source: HubFile, identity: Identity, begin_bytes: int, on_size: OnSize, sink: Sink, budget_s: float
    ) -> None:
        """From ``begin_bytes`` on."""
        self._part(source, on_size).download(begin_bytes, sink, budget_s)

    def _part(self, pinned: HubFile, on_size: OnSize = lambda size: None) -> WebPart:
        from huggingface_hub import hf_hub_url

        def check(head: Head) -> None:
            if head.size_bytes is None:
                raise AdapterUnreadable(f"{head.host} does not tell the file's size.")
            check_size(head.size_bytes, self._largest_bytes)
            on_size(head.size_bytes)

        url = hf_hub_url(pinned.repo, pinned.file or "", revision=pinned.revision, endpoint=self._endpoint)
        headers = {"authorization": f"Bearer {self._token}"} if self._token else {}
        return WebPart(self._web, url, headers, check)

    def _find(self, source: HubFile, budget_s: float) -> _Found:
        with _told(source):
            info = self._api().model_info(source.repo, revision=source.revision, files_metadata=True, timeout=budget_s)
        siblings = {one.rfilename: one for one in info.siblings or ()}
        file = pick([name for name in siblings if name.endswith(SUFFIX)], source)
        if info.sha is None:
            raise SourceUnavailable("the hub does not tell the commit; try again.")
        lfs = siblings[file].lfs
        return _Found(info.sha, file, siblings[file].size, lfs.sha256 if lfs else None)

    def _api(self) -> HfApi:
        # Here and not at the top, because it takes a quarter of a second that most processes need not wait.
        from huggingface_hub import HfApi

        # Never the token that somebody left on this machine.
        return HfApi(endpoint=self._endpoint, token=self._token or False)


def pick(files: Sequence[str], source: HubFile) -> str:
    """The safetensors file that is meant; ``AdapterAmbiguous`` lists several, ``UnknownAdapter`` when there is none."""
    if source.file is not None:
        if source.file in files:
            return source.file
        raise UnknownAdapter(f"hf:{source.repo} has no file {source.file}; it has: {_listed(files)}.")
    if len(files) == 1:
        return files[0]
    if not files:
        raise UnknownAdapter(f"hf:{source.repo} has no {SUFFIX} file; other kinds of files are never loaded.")
    raise AdapterAmbiguous(
        f"hf:{source.repo} has several {SUFFIX} files; name one, as in hf:{source.repo}#{min(files)}: {_listed(files)}."
    )


def _listed(files: Sequence[str]) -> str:
    ordered = sorted(files)
    rest = len(ordered) - MOST_LISTED
    return ", ".join(ordered[:MOST_LISTED]) + (f" and {rest} more" if rest > 0 else "") or "none"


@contextmanager
def _told(source: HubFile) -> Iterator[None]:
    """Turn the hub's errors into ours; their own texts hold addresses and request ids."""
    from huggingface_hub import errors

    repo = f"hf:{source.repo}"
    try:
        yield
    except errors.GatedRepoError:
        raise AdapterForbidden(f"{repo} is gated: its terms must be accepted with the account of HF_TOKEN.") from None
    except errors.RepositoryNotFoundError:
        raise UnknownAdapter(f"{repo} does not exist, or is private and may not be read from here.") from None
    except errors.RevisionNotFoundError:
        raise UnknownAdapter(f"{repo} has no revision {source.revision}.") from None
    except errors.HFValidationError:
        raise InvalidRequest(f"{repo} is not the name of a repository.") from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403) or isinstance(error, errors.DisabledRepoError):
            raise AdapterForbidden(f"the hub does not let this service read {repo} ({status}).") from None
        raise SourceUnavailable(f"the hub cannot tell about {repo} now ({status}); try again.") from None
    except (httpx2.HTTPError, errors.OfflineModeIsEnabled, OSError, ValueError) as error:
        name = type(error).__name__
        raise SourceUnavailable(f"the hub is not reached ({name}); try again.") from None


def cache_folder_of(repo: str, cache_folder: Path | None) -> Path:
    """Where the hub's own cache keeps a model repository; ``cache_folder``: None for the one that is configured."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    return Path(cache_folder or constants.HF_HUB_CACHE) / repo_folder_name(repo_id=repo, repo_type="model")
