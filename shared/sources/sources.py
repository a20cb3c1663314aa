"""All kinds of sources behind one door: open what a caller names, download what a job is pinned to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from shared.addresses import Resolver
from shared.errors import AdapterError, RequestError, Unavailable, UnknownAdapter
from shared.settings import Settings
from shared.sources.folder import FolderOrigin
from shared.sources.hub import HubOrigin
from shared.sources.hub_offline import OfflineHub
from shared.sources.identity import Identity
from shared.sources.opened import Opened
from shared.sources.origin import OnSize, Origin, Sink
from shared.sources.source import (
    AdapterSource,
    FolderFile,
    HubFile,
    Registered,
    RemoteSource,
    S3Object,
    parse,
    shown,
)
from shared.sources.web import Web
from shared.sources.web_origin import WebOrigin

OPEN_BUDGET_S = 5.0
"""So long a source may take to tell size and version."""


class Sources:
    """Opens and downloads; safe from any thread. Make it after a fork, not before."""

    def __init__(self, settings: Settings, *, resolver: Resolver | None = None) -> None:
        self._settings = settings
        largest_bytes, networks = settings.adapter_largest_bytes, settings.adapter_allowed_networks
        self._folder = FolderOrigin(settings.adapter_folder, largest_bytes)
        self._web = WebOrigin(Web(networks, resolver=resolver), largest_bytes)
        self._hub: Origin[HubFile] = (
            OfflineHub(largest_bytes)
            if settings.hf_offline
            else HubOrigin(settings, Web(networks, trusted=settings.hf_endpoint, resolver=resolver))
        )
        self._s3: Origin[S3Object] | None = None

    def open_source(self, source: AdapterSource | str, *, field: str = "adapters") -> Opened:
        """Size, version and parts of a source, with the rights that this service has at this moment.

        Raises ``RequestError`` or ``AdapterError``, which the caller must heed, or ``Unavailable``, which passes. Every
        message begins with ``field`` and the source, without what may be secret in it.
        """
        if isinstance(source, str):
            source = parse(source, field=field)
        if isinstance(source, Registered):
            raise UnknownAdapter(f"{field}: {source.name[:40]!r} is not registered.", field=field)
        text = source.text
        with _named(text, field):
            opened = (
                self._folder.open(source, field)
                if isinstance(source, FolderFile)
                else self._origin(source).open(source, OPEN_BUDGET_S)
            )

        def read_range(offset: int, length: int) -> bytes:
            with _named(text, field):
                return opened.read_range(offset, length)

        return replace(opened, read_range=read_range)

    def download(self, identity: Identity, begin_bytes: int, on_size: OnSize, sink: Sink) -> None:
        """The bytes that ``identity`` names, from ``begin_bytes`` on, handed to ``sink`` in order.

        Raises ``AdapterChanged`` when the source holds others by now, else as ``open_source``. What the callbacks
        raise passes through.
        """
        with _named(identity.location, "adapters"):
            source = parse(identity.location)
            if isinstance(source, Registered | FolderFile):
                raise UnknownAdapter("there is nothing to download.")
            budget_s = self._settings.adapter_fetch_budget_s
            self._origin(source).download(source, identity, begin_bytes, on_size, sink, budget_s)

    def _origin(self, source: RemoteSource) -> Origin[Any]:
        if isinstance(source, HubFile):
            return self._hub
        if isinstance(source, S3Object):
            if self._s3 is None:
                # Here and not at the top, because boto3 takes a third of a second that others need not wait.
                from shared.sources.s3 import S3Origin

                self._s3 = S3Origin(self._settings)
            return self._s3
        return self._web


@contextmanager
def _named(text: str, field: str) -> Iterator[None]:
    """Let every refusal begin with the field and the source."""
    try:
        yield
    except (RequestError, AdapterError, Unavailable) as error:
        if not error.message.startswith(f"{field}: "):
            error.message, error.field = f"{field}: {shown(text)[:200]}: {error.message}", field
            error.args = (error.message,)
        raise
