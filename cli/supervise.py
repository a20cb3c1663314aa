"""Keeps processes running: starts them in stages, restarts what dies by itself, stops the last stage first."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event, Thread
from typing import Protocol

from cli.processes import Say
from shared.errors import SetupError

LOOK_S = 0.1
LONGEST_PAUSE_S = 30.0
SOUND_S = 60.0
"""A process that lived this long had started well, so its death is not counted with earlier ones."""
OWN_NAME = "hotslot"


class Kept(Protocol):
    """Something that can be started again and again."""

    name: str

    def start(self) -> None:
        """Start it; raises SetupError."""

    def status(self) -> int | None:
        """Exit status, or None while it runs."""

    def last_words(self) -> str:
        """The last line that it said."""

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it at once."""


@dataclass(frozen=True)
class Restart:
    """Start it again after a pause."""

    pause_s: float


@dataclass(frozen=True)
class GiveUp:
    """Stop everything; ``why`` follows the process's name."""

    why: str


def after_death(status: int, deaths: int, most_deaths: int | None) -> Restart | GiveUp:
    """What follows from the death in a row number ``deaths`` (from 1). None: no limit."""
    if status == SetupError.exit_status:
        return GiveUp("refused to start")
    if most_deaths is not None and deaths >= most_deaths:
        return GiveUp(f"{described(status)} {deaths} times in a row")
    return Restart(min(LONGEST_PAUSE_S, 2.0 ** (deaths - 1)))


def described(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"ended (status {status})"
    try:
        return f"was killed ({signal.Signals(-status).name})"
    except ValueError:
        return f"was killed (signal {-status})"


@dataclass
class _Post:
    kept: Kept
    started_s: float = 0.0
    deaths: int = 0
    restart_at_s: float | None = None


class Supervisor:
    """``stages`` are started in their order and stopped in reverse; a later one may rely on the earlier ones."""

    def __init__(self, stages: Sequence[Sequence[Kept]], say: Say, most_deaths: int | None = None) -> None:
        self._stages = [[_Post(kept) for kept in stage] for stage in stages]
        self._say = say
        self._most_deaths = most_deaths
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="supervisor", daemon=True)
        self.failure: str | None = None
        """Why everything must stop, once that is so."""

    def start(self) -> None:
        """Start everything. Raises SetupError; what runs by then is ended by ``stop``."""
        for post in self._posts():
            self._start(post)
        self._thread.start()

    def stop(self, grace_s: float, hurry: Callable[[], bool]) -> None:
        """End every stage in turn: ask, wait up to ``grace_s`` or until ``hurry``, then kill."""
        self._stopping.set()
        while self._thread.is_alive() and not hurry():
            self._thread.join(LOOK_S)
        for stage in reversed(self._stages):
            running = [post.kept for post in stage if post.started_s]
            for kept in running:
                kept.terminate()
            until_s = time.monotonic() + grace_s
            while _any_runs(running) and time.monotonic() < until_s and not hurry():
                time.sleep(LOOK_S / 2)
            for kept in running:
                if kept.status() is None:
                    self._say(OWN_NAME, f"{kept.name} has not ended; it is killed")
                    kept.kill()
            while _any_runs(running):
                time.sleep(LOOK_S / 2)

    def _posts(self) -> list[_Post]:
        return [post for stage in self._stages for post in stage]

    def _start(self, post: _Post) -> None:
        post.restart_at_s = None
        post.kept.start()
        post.started_s = time.monotonic()

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_S) and self.failure is None:
            for post in self._posts():
                self._look(post)

    def _look(self, post: _Post) -> None:
        now_s = time.monotonic()
        if post.restart_at_s is not None:
            if now_s >= post.restart_at_s:
                self._try_again(post)
            return
        status = post.kept.status()
        if status is None:
            return
        post.deaths = 1 if now_s - post.started_s >= SOUND_S else post.deaths + 1
        self._after(post, after_death(status, post.deaths, self._most_deaths), described(status))

    def _after(self, post: _Post, decision: Restart | GiveUp, what: str) -> None:
        name = post.kept.name
        if isinstance(decision, GiveUp):
            words = post.kept.last_words()
            self.failure = f"{name} {decision.why}{': ' + words if words else '.'}"
            return
        self._say(OWN_NAME, f"{name} {what}; starting it again in {decision.pause_s:.0f} s")
        post.restart_at_s = time.monotonic() + decision.pause_s

    def _try_again(self, post: _Post) -> None:
        try:
            self._start(post)
        except (SetupError, OSError) as error:
            post.deaths += 1
            self._after(post, after_death(1, post.deaths, self._most_deaths), f"could not be started ({error})")


def _any_runs(running: Sequence[Kept]) -> bool:
    return any(kept.status() is None for kept in running)
