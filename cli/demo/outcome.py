"""What came of the demo's jobs: collected once, then judged and written down elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cli.demo.plan import Planned, swaps_in_order
from cli.demo.receiver import Received
from shared.view import JobView


@dataclass(frozen=True)
class Ended:
    """One job of the plan as it ended; ``image``: its file, where it has one."""

    planned: Planned
    job: JobView
    image: Path | None = None

    @property
    def group(self) -> frozenset[str]:
        """Hashes of its adapter files."""
        return frozenset(adapter.sha256 or "" for adapter in self.job.adapters)


@dataclass(frozen=True)
class Cancelling:
    """How far the job to be cancelled had come when it was, and its status then."""

    step: int = 0
    steps: int = 0
    status: str = ""


@dataclass(frozen=True)
class Outcome:
    """All jobs, the calls of the receiver, the swaps that the worker counted, and the public keys of receipts by id."""

    ended: list[Ended]
    calls: list[Received]
    cancelling: Cancelling
    swaps: int
    receipt_keys: Mapping[str, str]

    @property
    def swaps_in_arrival_order(self) -> int:
        """The swaps that one worker makes when it takes jobs as they come."""
        arrived = sorted(self.ended, key=lambda one: (one.job.created_at, one.job.id))
        return swaps_in_order([one.group for one in arrived])
