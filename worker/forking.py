"""Keeps a fork from copying a host name look-up that is under way in another thread.

The C library looks names up under a lock of its own. A child that is forked meanwhile inherits that lock as held, by a
thread that it does not have, and waits for it for ever at its first connection (POSIX allows such a child little more
than exec). Addresses written as numbers never meet it; names, as a compose network gives them, do.
"""

from __future__ import annotations

import os
import socket
import threading
from typing import Any

_looking_up = threading.Lock()
_getaddrinfo = socket.getaddrinfo


def fork_between_lookups() -> None:
    """From now on look-ups of this process run one at a time, and forks wait for the one under way. Call it once."""
    socket.getaddrinfo = _alone
    os.register_at_fork(
        before=_looking_up.acquire, after_in_parent=_looking_up.release, after_in_child=_looking_up.release
    )


def _alone(*arguments: Any, **options: Any) -> Any:
    with _looking_up:
        return _getaddrinfo(*arguments, **options)
