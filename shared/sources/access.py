"""The one place where it is proven that a caller may use an adapter, on every admission, whatever is cached of it."""

from __future__ import annotations

from shared.errors import AdapterChanged
from shared.sources.identity import Identity
from shared.sources.opened import Opened
from shared.sources.source import AdapterSource
from shared.sources.sources import Sources


def prove_access(
    sources: Sources, source: AdapterSource, registered_as: Identity | None = None, *, field: str = "adapters"
) -> Opened:
    """The source as it is at this moment, read with the caller's rights: today those of the service, for everybody.

    ``registered_as``: what a registered name is pinned to; ``AdapterChanged`` when its source holds other bytes by now.
    Raises ``AdapterForbidden`` or ``UnknownAdapter`` for a file that may no longer be read, even if workers still have
    its bytes. When tenants have rights of their own, they are asked for here.
    """
    opened = sources.open_source(source, field=field)
    if registered_as is not None and opened.identity.key != registered_as.key:
        raise AdapterChanged(
            f"{field}: the file was replaced at its source since it was registered; register it again.", field=field
        )
    return opened
