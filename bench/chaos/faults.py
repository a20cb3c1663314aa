"""Doing the damage, each fault on whoever is at work."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Lock

from bench.chaos.plan import FAULTS, Fault
from bench.chaos.stack import APIS, LEASE_MS, NOTIFIER, WORKERS, ChaosStack
from cli.kept import KeptProgram
from cli.processes import Say
from shared import keys
from shared.errors import HotslotError
from shared.queue import Queue
from shared.server import connect_worker, members_of

VALKEY_AWAY_S = 1.0
STORE_AWAY_S = 5.0
PAUSE_S = LEASE_MS / 1000 + 2.0
WAIT_FOR_WORK_S = 20.0
"""How long a fault waits for a worker with a job before it takes an idle one: on a slow machine, a model's loading."""
GLANCE_S = 0.05
OWN_NAME = "chaos"


class Faults:
    """Injects faults into a stack, side by side where they last; ``done`` and ``on_a_job`` count them by kind."""

    def __init__(self, stack: ChaosStack, random: Random, say: Say) -> None:
        self._stack = stack
        self._random = random
        self._say = say
        self._client = connect_worker(stack.settings)
        self._queue = Queue(self._client, stack.settings)
        self._pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix="fault")
        self._begun: list[Future[None]] = []
        self._lock = Lock()
        # One of a kind at a time: a store that is away cannot be killed once more.
        self._turns = {fault: Lock() for fault in FAULTS}
        self.done: Counter[str] = Counter()
        self.on_a_job: Counter[str] = Counter()

    def begin(self, fault: Fault) -> None:
        """Begin one as soon as a worker has a job; returns without waiting for its end."""
        acts: dict[Fault, Callable[[], None]] = {
            "worker_child": lambda: self._on_worker(fault, _kill_child),
            "worker": lambda: self._on_worker(fault, lambda one: _send(one, signal.SIGKILL)),
            "pause": lambda: self._on_worker(fault, _pause),
            "api": lambda: self._on(fault, self._stack.programs[self._random.choice(APIS)]),
            "notifier": lambda: self._on(fault, self._stack.programs[NOTIFIER]),
            "valkey": lambda: self._at_work(fault, lambda: self._stack.restart_valkey(VALKEY_AWAY_S)),
            "store": lambda: self._at_work(fault, self._store_away),
        }
        until_s = time.monotonic() + WAIT_FOR_WORK_S
        while not self._working() and time.monotonic() < until_s:
            time.sleep(GLANCE_S)
        self._begun.append(self._pool.submit(self._in_turn, fault, acts[fault]))

    def join(self) -> None:
        """Wait until all are done and undone; raises what one of them raised."""
        for one in self._begun:
            one.result()
        self._pool.shutdown()

    def _in_turn(self, fault: Fault, act: Callable[[], None]) -> None:
        with self._turns[fault]:
            act()

    def _on(self, fault: Fault, program: KeptProgram) -> None:
        self._at_work(fault, lambda: _send(_once_running(program), signal.SIGKILL))

    def _at_work(self, fault: Fault, act: Callable[[], None]) -> None:
        self._count(fault, bool(self._working()), fault)
        act()

    def _on_worker(self, fault: Fault, act: Callable[[KeptProgram], None]) -> None:
        working = self._working()
        name = self._random.choice(sorted(working) or sorted(WORKERS))
        program = _once_running(self._stack.programs[name])
        self._count(fault, name in working, name)
        act(program)

    def _store_away(self) -> None:
        self._stack.store_process.kill()
        time.sleep(STORE_AWAY_S)
        self._stack.store_process.start()

    def _count(self, fault: Fault, on_a_job: bool, what: str) -> None:
        self._say(OWN_NAME, f"{fault}: {what}{' at work' if on_a_job else ''}")
        with self._lock:
            self.done[fault] += 1
            self.on_a_job[fault] += on_a_job

    def _working(self) -> set[str]:
        """Names of the programs that hold a job which is being drawn now."""
        try:
            jobs = [self._queue.get(job) for job in members_of(self._client, keys.LEASES())]
        except HotslotError:
            return set()
        drawing = {job.worker for job in jobs if job.worker and job.step < job.steps}
        return {name for name in WORKERS if _holds(self._stack.programs[name], drawing)}


def _holds(program: KeptProgram, workers: Collection[str]) -> bool:
    return program.status() is None and any(f"-{program.pid}@" in worker for worker in workers)


def _once_running(program: KeptProgram) -> KeptProgram:
    while program.status() is not None:
        time.sleep(GLANCE_S)
    return program


def _send(program: KeptProgram, number: int) -> None:
    if program.pid is not None and program.status() is None:
        with suppress(ProcessLookupError):
            os.kill(program.pid, number)


def _kill_child(program: KeptProgram) -> None:
    for child in _children(program.pid):
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def _pause(program: KeptProgram) -> None:
    """Stop the worker and its child as a frozen machine would, beyond the lease."""
    pid = program.pid
    frozen = [number for number in (pid, *_children(pid)) if number is not None]
    for number in frozen:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGSTOP)
    time.sleep(PAUSE_S)
    # Killed meanwhile by another fault, its numbers may be somebody else's.
    for number in frozen if program.pid == pid and program.status() is None else ():
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGCONT)


def _children(pid: int | None) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
