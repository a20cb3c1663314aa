"""What a worker's parent and its child tell each other: a few numbers in memory that both see after the fork.

Raw values without locks, because a child that is killed while it holds a lock would stop its parent too.
"""

from __future__ import annotations

from multiprocessing.sharedctypes import RawValue


class Flags:
    """Make it in the parent before the fork."""

    def __init__(self) -> None:
        self._ready_pid = RawValue("i", 0)
        self._exit_status = RawValue("i", 0)
        self._stop_at_s = RawValue("d", 0.0)

    @property
    def ready_pid(self) -> int:
        """Process id of the child that is ready for tickets, or 0."""
        return int(self._ready_pid.value)

    @ready_pid.setter
    def ready_pid(self, pid: int) -> None:
        self._ready_pid.value = pid

    @property
    def exit_status(self) -> int:
        """Exit status with which the worker must end, because a new child would fail like the last; or 0."""
        return int(self._exit_status.value)

    @exit_status.setter
    def exit_status(self, status: int) -> None:
        self._exit_status.value = status

    @property
    def stop_at_s(self) -> float:
        """Monotonic time by which the child must have left its job, or 0."""
        return float(self._stop_at_s.value)

    @stop_at_s.setter
    def stop_at_s(self, when_s: float) -> None:
        self._stop_at_s.value = when_s
