"""From jobs' records to the denoiser's share of the time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from shared.job import Job

BEFORE = ("fetch", "swap", "encode_prompt")
"""What lies between a job's claim and its denoising."""


@dataclass(frozen=True)
class Round:
    """All jobs of one worker, which waited from the beginning, and the worker's own account of its time."""

    jobs: Sequence[Job]
    busy_ratio: float

    @property
    def jobs_per_s(self) -> float:
        """From the first claim to the last end."""
        ended_ms = [job.finished_ms or 0 for job in self.jobs]
        return len(self.jobs) / (max(ended_ms) - min(map(_claimed_ms, self.jobs))) * 1000

    @property
    def denoising_share(self) -> float:
        """Share of the time from the first claim to the end of the last denoising in which one ran."""
        until_ms = max(
            _claimed_ms(job) + sum(_timings_ms(job)[stage] for stage in (*BEFORE, "denoise")) for job in self.jobs
        )
        denoising_ms = sum(_timings_ms(job)["denoise"] for job in self.jobs)
        return denoising_ms / (until_ms - min(map(_claimed_ms, self.jobs)))


def summed(rounds: Sequence[Round]) -> dict[str, Any]:
    """Medians over the rounds, and over all jobs of each stage's milliseconds."""
    jobs = [job for one in rounds for job in one.jobs]
    return {
        "busy_ratio": round(median(one.busy_ratio for one in rounds), 4),
        "busy_ratios": [round(one.busy_ratio, 4) for one in rounds],
        "denoising_share": round(median(one.denoising_share for one in rounds), 4),
        "jobs_per_s": round(median(one.jobs_per_s for one in rounds), 3),
        "jobs": len(jobs),
        "stages_ms": {
            stage: round(median(_timings_ms(job)[stage] for job in jobs), 2)
            for stage in _timings_ms(jobs[0])
            if stage != "queued"
        },
    }


def _timings_ms(job: Job) -> dict[str, float]:
    if job.result is None:
        raise ValueError(f"job {job.id} has not succeeded: {job.error}")
    return job.result.timings_ms


def _claimed_ms(job: Job) -> int:
    if job.claimed_ms is None:
        raise ValueError(f"job {job.id} was never claimed")
    return job.claimed_ms
