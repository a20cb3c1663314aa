"""Callers: one that submits, one that polls and cancels; neither gives up when an API process dies under it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from threading import Event, Lock, Thread

from bench.chaos.requests import Asked
from cli.client import Client
from shared.errors import HotslotError, JobFinished, Unavailable
from shared.job import Status
from shared.view import JobView

PAUSE_S = 0.05
AWAY_PAUSE_S = 0.3


@dataclass
class Followed:
    """An accepted job, as its caller saw it. ``ends``: every terminal state that he ever read."""

    asked: Asked
    id: str
    accepted_s: float
    ends: set[Status] = field(default_factory=set)
    cancelled: bool = False
    """Whether the service acknowledged its cancel."""


class Traffic:
    """``submit`` and ``follow`` run in threads of their own between ``start`` and ``stop``.

    At most ``most_open`` jobs are under way at any time. ``clients``: one per API process.
    """

    def __init__(self, clients: Sequence[Client], draw: Callable[[int], Asked], most_open: int, random: Random) -> None:
        self._clients = clients
        self._draw = draw
        self._most_open = most_open
        self._random = random
        self._ending = Event()
        self._lock = Lock()
        self._followed: dict[str, Followed] = {}
        self._open: dict[str, Followed] = {}
        self.refusals: Counter[str] = Counter()
        """Codes of errors that no caller should have got."""
        self.unavailable = 0
        """How often a caller had to try again."""
        self._threads = [Thread(target=work, name=work.__name__, daemon=True) for work in (self.submit, self.follow)]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """No new jobs; waits until every request that was begun has its answer, so the API must be up."""
        self._ending.set()
        for thread in self._threads:
            thread.join()

    @property
    def followed(self) -> list[Followed]:
        """Every accepted job."""
        with self._lock:
            return list(self._followed.values())

    def submit(self) -> None:
        """Submit job after job."""
        number = 0
        while not self._ending.wait(PAUSE_S):
            if len(self._open) < self._most_open:
                self._submit(self._draw(number))
                number += 1

    def follow(self) -> None:
        """Poll and cancel what is under way."""
        while not self._ending.wait(PAUSE_S):
            with self._lock:
                under_way = list(self._open.values())
            for one in under_way:
                self._look(one)
                if self._ending.wait(PAUSE_S):
                    return

    def _submit(self, asked: Asked) -> None:
        view = self._tried(lambda client: client.submit(dict(asked.body), asked.idempotency_key))
        if view is not None:
            with self._lock:
                followed = Followed(asked, view.id, time.monotonic())
                self._followed[view.id] = self._open[view.id] = followed

    def _look(self, one: Followed) -> None:
        after_s = one.asked.cancel_after_s
        if after_s is not None and not one.cancelled and time.monotonic() >= one.accepted_s + after_s:
            one.cancelled = self._tried(lambda client: client.cancel(one.id)) is not None
        view = self._tried(lambda client: client.job(one.id))
        if view is not None and view.status.terminal:
            one.ends.add(view.status)
            with self._lock:
                del self._open[one.id]

    def _tried(self, call: Callable[[Client], JobView]) -> JobView | None:
        """The answer of whichever API process gives one; None if it was an error that means what it says."""
        while True:
            try:
                return call(self._random.choice(self._clients))
            except JobFinished:
                return None
            except Unavailable:
                self.unavailable += 1
                time.sleep(AWAY_PAUSE_S)
            except HotslotError as error:
                self.refusals[error.code] += 1
                return None
