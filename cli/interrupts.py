"""Ctrl-C and its kin: the first asks for an orderly end, the second for a quick one."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Counts the signals that ask this process to end, instead of raising from wherever it happens to be.

    A context manager for the main thread. Only a plain number is touched in the handler, because it may run while
    the main thread holds any lock.
    """

    def __init__(self) -> None:
        self.count = 0
        self.last = 0
        self._raises = False
        self._earlier: dict[int, Any] = {}

    @property
    def asked(self) -> bool:
        """Whether the process was asked to end."""
        return self.count > 0

    @property
    def asked_twice(self) -> bool:
        """Whether whoever asked is out of patience."""
        return self.count > 1

    @property
    def exit_status(self) -> int:
        """Exit status by which shells know a process that ended on this signal."""
        return 128 + self.last

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Within this block a signal raises KeyboardInterrupt at once; for work that may stop anywhere."""
        if self.asked:
            raise KeyboardInterrupt
        self._raises = True
        try:
            yield
        finally:
            self._raises = False

    def _handle(self, number: int, _: FrameType | None) -> None:
        self.count += 1
        self.last = number
        if self._raises:
            self._raises = False
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        for number in SIGNALS:
            self._earlier[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._earlier.items():
            signal.signal(number, handler)
