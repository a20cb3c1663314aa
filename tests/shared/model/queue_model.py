"""What the scripts must do, in plain Python: one base model, no clock but the numbers that it is told."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from shared.job import LEGAL_CHANGES, Status
from shared.rank import HEAD_START_MS
from shared.request import Priority

Held = Literal["ok", "lost", "cancelled", "expired"]


@dataclass
class ModelJob:
    """A job. ``turn_ms``: as the server said, once it was found to be right."""

    name: str
    group: str
    tenant: str
    turn_ms: int
    priority: Priority
    hooked: bool
    has_deadline: bool
    status: Status = Status.QUEUED
    attempt: int = 0
    losses: int = 0
    holder: str = ""
    stop: Literal["", "cancelled", "expired"] = ""
    is_late: bool = False
    lease_ran_out: bool = False

    @property
    def rank_ms(self) -> int:
        """Turn and head start."""
        return self.turn_ms - HEAD_START_MS[self.priority]

    @property
    def place(self) -> tuple[int, str]:
        """Its place in the line."""
        return self.rank_ms, self.name


@dataclass
class QueueModel:
    """All jobs, who overtook whom, and the events that notifiers must find."""

    overtake_max: int
    max_losses: int
    jobs: dict[str, ModelJob] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    """Workers that get nothing; "" for all of them."""
    marks: dict[str, str] = field(default_factory=dict)
    """Of each worker: the job that it is about to come for."""
    claims_ms: list[int] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    overtaken_max: int = 0
    claimed: int = 0
    overtakers: Counter[str] = field(default_factory=Counter)
    """Of each job: claims of later rank while it waited, since it last began to wait. The truth, not the script's."""

    @property
    def line(self) -> list[ModelJob]:
        """The waiting jobs, oldest first."""
        return sorted((job for job in self.jobs.values() if job.status is Status.QUEUED), key=lambda job: job.place)

    @property
    def running(self) -> list[ModelJob]:
        """The jobs with a lease."""
        return [job for job in self.jobs.values() if job.status is Status.RUNNING]

    def heads(self) -> dict[str, ModelJob]:
        """The head of each group, oldest first."""
        found: dict[str, ModelJob] = {}
        for job in self.line:
            found.setdefault(job.group, job)
        return found

    def overtaken(self, rank_ms: int) -> int:
        """As the scripts count it."""
        return sum(claim_ms > rank_ms for claim_ms in self.claims_ms)

    def marked_by_others(self, worker: str) -> list[ModelJob]:
        """Jobs that wait and that somebody else has marked."""
        return [job for job in self.line if job.name in {name for by, name in self.marks.items() if by != worker}]

    def first_free(self, group: str, worker: str) -> ModelJob | None:
        """The job of the group that this worker gets: the first that nobody else marked, else the first."""
        own = [job for job in self.line if job.group == group]
        marked = self.marked_by_others(worker)
        return next((job for job in own if job not in marked), own[0] if own else None)

    def reserve(self, group: str, worker: str) -> ModelJob | None:
        """A new mark, instead of the one before."""
        job = None if self.paused & {"", worker} else self.first_free(group, worker)
        self.marks.pop(worker, None)
        if job:
            self.marks[worker] = job.name
        return job

    def submit(self, job: ModelJob) -> None:
        """A job arrives."""
        self.jobs[job.name] = job

    def claim(self, group: str, holder: str) -> ModelJob | Literal["empty", "bound"]:
        """The first job of the group that nobody else marked, unless the oldest must go first.

        Those past their deadline end on the way.
        """
        if self.paused & {"", holder}:
            return "empty"
        while True:
            heads = self.heads()
            if group not in heads:
                return "empty"
            head, oldest = heads[group], self.line[0]
            if self.overtaken(oldest.rank_ms) < self.overtake_max:
                head = self.first_free(group, holder) or head
            elif head.rank_ms > oldest.rank_ms:
                return "bound"
            if not head.is_late:
                break
            self._end(head, Status.EXPIRED)
        self.overtaken_max = max(self.overtaken_max, self.overtaken(head.rank_ms))
        self.claimed += 1
        self.marks.pop(holder, None)
        for job in self.line:
            self.overtakers[job.name] += job.rank_ms < head.rank_ms
        self.claims_ms.append(head.rank_ms)
        self._change(head, Status.RUNNING)
        head.attempt += 1
        head.holder = holder
        head.lease_ran_out = False
        return head

    def held(self, name: str, attempt: int) -> Held:
        """What a fenced write is answered."""
        job = self.jobs[name]
        if job.status is not Status.RUNNING or job.attempt != attempt:
            return "lost"
        return job.stop or "ok"

    def renew(self, name: str, attempt: int) -> Held:
        """A job that was asked to stop keeps its lease, so that it can stop."""
        answer = self.held(name, attempt)
        if answer != "lost":
            self.jobs[name].lease_ran_out = False
        return answer

    def finish(self, name: str, attempt: int, status: Status) -> Held:
        """End a job; the attempt that ended it may say so again."""
        job = self.jobs[name]
        if job.status is status and job.attempt == attempt:
            return "ok"
        answer = self.held(name, attempt)
        if answer == "lost":
            return answer
        if answer != "ok" and status is Status.SUCCEEDED:
            return answer
        self._end(job, status if answer == "ok" else Status(answer))
        return "ok"

    def give_back(self, name: str, attempt: int) -> Held:
        """Hand back, or end as asked."""
        answer = self.held(name, attempt)
        if answer != "lost":
            self._return(self.jobs[name])
        return answer

    def cancel(self, name: str) -> Status:
        """Cancel; the status that it had."""
        job = self.jobs[name]
        had = job.status
        if had is Status.QUEUED:
            self._end(job, Status.CANCELLED)
        elif had is Status.RUNNING:
            job.stop = job.stop or "cancelled"
        return had

    def abandon(self, holder: str, keep: set[str], *, counted: bool) -> set[str]:
        """Take a holder's jobs."""
        taken = [job for job in self.running if job.holder == holder and job.name not in keep]
        for job in taken:
            self._lose(job) if counted else self._return(job)
        return {job.name for job in taken}

    def reclaim(self, *, server_restarted: bool) -> set[str]:
        """Leases that ran out, and deadlines."""
        if server_restarted:
            for job in self.running:
                job.lease_ran_out = False
        changed = [job for job in self.running if job.lease_ran_out]
        for job in changed:
            self._lose(job)
        for job in self.jobs.values():
            if not job.is_late or not job.has_deadline:
                continue
            if job.status is Status.QUEUED:
                self._end(job, Status.EXPIRED)
                changed.append(job)
            elif job.status is Status.RUNNING:
                job.has_deadline = False
                job.stop = job.stop or "expired"
        return {job.name for job in changed}

    def _lose(self, job: ModelJob) -> None:
        if job.stop:
            self._end(job, Status(job.stop))
            return
        job.losses += 1
        if job.losses >= self.max_losses:
            self._end(job, Status.FAILED)
        else:
            self._return(job)

    def _return(self, job: ModelJob) -> None:
        if job.stop:
            self._end(job, Status(job.stop))
            return
        self._change(job, Status.QUEUED)
        job.holder = ""
        self.overtakers[job.name] = 0

    def _end(self, job: ModelJob, status: Status) -> None:
        self._change(job, status)
        job.has_deadline = False
        self.events[job.name] += job.hooked

    def _change(self, job: ModelJob, status: Status) -> None:
        assert status in LEGAL_CHANGES[job.status], (job, status)
        job.status = status
        line = self.line
        self.claims_ms = [claim for claim in self.claims_ms if line and claim > line[0].rank_ms]
