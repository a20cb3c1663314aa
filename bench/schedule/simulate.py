"""Workers in virtual time: a trace in, what it cost and who waited out."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from bench.schedule.line import Line
from bench.schedule.policies import Policy
from bench.schedule.traces import Arrival
from shared.groups import NO_ADAPTERS
from shared.rank import Shares
from worker.choose import Here, Pace


@dataclass(frozen=True)
class Fleet:
    """Workers of one base model. ``memory``: adapters that each keeps in memory; the least recently used goes first."""

    workers: int
    pace: Pace
    memory: int = 0


@dataclass
class Outcome:
    """What each job of the trace went through, and what the workers did.

    ``waits_ms``: from arrival to the moment when a worker begins with it, before any swap. ``overtaken``: how many jobs
    of later rank went before it. ``floor``: swaps that any order needs: in each window that begins and ends with an
    empty queue, one for every adapter asked for that no worker had in its slot when the window began.
    """

    waits_ms: list[float]
    overtaken: list[int]
    swaps: int = 0
    floor: int = 0


@dataclass
class _Worker:
    resident: str = NO_ADAPTERS
    streak: int = 0
    memory: OrderedDict[str, None] = field(default_factory=OrderedDict)


def simulate(trace: Sequence[Arrival], policy: Policy, fleet: Fleet) -> Outcome:
    """Serve the whole trace. A free worker takes a job at once; the one that was idle for longest is woken first."""
    return _Simulation(trace, policy, fleet).run()


class _Simulation:
    def __init__(self, trace: Sequence[Arrival], policy: Policy, fleet: Fleet) -> None:
        self._trace = trace
        self._policy = policy
        self._fleet = fleet
        self._line = Line()
        self._shares = Shares()
        self._workers = [_Worker() for _ in range(fleet.workers)]
        self._residents = Counter(worker.resident for worker in self._workers)
        self._idle = deque(range(fleet.workers))
        self._ends: list[tuple[float, int]] = []
        self._in_window: set[str] = set()
        self._outcome = Outcome([0.0] * len(trace), [0] * len(trace))

    def run(self) -> Outcome:
        for number, job in enumerate(self._trace):
            while self._ends and self._ends[0][0] < job.at_ms:
                self._end()
            self._arrive(number, job)
        while self._ends:
            self._end()
        return self._outcome

    def _arrive(self, number: int, job: Arrival) -> None:
        if not self._line.waiting:
            self._in_window.clear()
        if job.group not in self._in_window:
            self._in_window.add(job.group)
            self._outcome.floor += not self._residents[job.group]
        rank_ms = self._shares.turn_ms(job.tenant, job.at_ms, self._line.oldest_ms, self._fleet.pace.service_ms)
        self._line.add(job.group, rank_ms, number, job.tenant)
        if self._idle:
            self._serve(self._idle.popleft(), job.at_ms)

    def _end(self) -> None:
        now_ms, number = heappop(self._ends)
        if self._line.waiting:
            self._serve(number, now_ms)
        else:
            self._idle.append(number)

    def _serve(self, number: int, now_ms: float) -> None:
        worker = self._workers[number]
        self._residents[worker.resident] -= 1
        job, swap_ms = self._take(worker, now_ms)
        self._residents[worker.resident] += 1
        self._outcome.waits_ms[job] = now_ms - self._trace[job].at_ms
        heappush(self._ends, (now_ms + swap_ms + self._fleet.pace.service_ms, number))

    def _take(self, worker: _Worker, now_ms: float) -> tuple[int, float]:
        """Choose and claim: the job, and the time that its swap takes."""
        pace = self._fleet.pace
        elsewhere = self._residents if self._policy.knows_others else Counter[str]()
        here = Here(worker.resident, worker.streak, frozenset(worker.memory))
        waiting = self._line.look(worker.resident, elsewhere)
        group = self._policy.pick(waiting, here, pace, lambda one: now_ms - self._trace[int(one.head)].at_ms)
        job, self._outcome.overtaken[job] = self._line.claim(group)
        if group == worker.resident:
            worker.streak += 1
            return job, 0.0
        # What a worker had when the window began cost nothing then.
        self._in_window.add(worker.resident)
        worker.resident, worker.streak = group, 1
        self._outcome.swaps += 1
        is_warm = group in worker.memory or group == NO_ADAPTERS
        self._remember(worker, group)
        return job, pace.warm_swap_ms if is_warm else pace.cold_swap_ms

    def _remember(self, worker: _Worker, group: str) -> None:
        worker.memory[group] = None
        worker.memory.move_to_end(group)
        while len(worker.memory) > self._fleet.memory:
            worker.memory.popitem(last=False)
