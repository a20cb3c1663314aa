"""The queue: every change of a job's state, as fenced scripts on the server.

Per base model there is one queue: groups of jobs that need the same adapters, each ordered by rank time, and an
index of group heads. A claim gives a lease and a fencing token (the attempt); every later write checks it.
"""

from __future__ import annotations

import json
import logging
import math
import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, cast

import redis

from shared import keys
from shared.errors import JobNotFound, KeyReused, WorkerLost
from shared.groups import WaitingGroup, group_of, waiting_group
from shared.job import RECORD_VERSION, Job, JobError, JobSpec, Result, Status, read_job
from shared.presence import ALIVE_MS, DRAINED_MS
from shared.rank import GUESSED_STEP_US, HEAD_START_MS
from shared.scripts import Scripts
from shared.server import fields_of, members_of, reached
from shared.settings import Settings

log = logging.getLogger(__name__)

IDEMPOTENCY_MS = 24 * 3600 * 1000
HEADS_CONSIDERED = 64
MARK_MS = 5_000
"""A mark on the next job lives so long unless it is renewed."""
DEFAULT_TENANT = "default"
_NO_GROUP = ""
_KEY_REUSED = "This Idempotency-Key was used for another job; send a new key with a new body."

Row = tuple[int, str]
"""A job's place among the newest: when it was created (Unix milliseconds), and its id."""

Held = Literal["ok", "lost", "cancelled", "expired"]
"""Answer of a fenced write: go on; another owns the job; or how it was asked to stop."""


class Queue:
    """Jobs on one server. Every method raises ``QueueUnavailable`` when the server is not reached."""

    def __init__(self, client: redis.Redis, settings: Settings) -> None:
        self._redis = client
        self._settings = settings
        self._scripts = Scripts(client)

    # --- by the API -------------------------------------------------------------------------------

    def submit(
        self,
        job_id: str,
        spec: JobSpec,
        *,
        warnings: Sequence[str] = (),
        tenant: str = DEFAULT_TENANT,
        idempotency_key: str = "",
        body_sha256: str = "",
        weight: float = 1.0,
    ) -> str:
        """Store the job and queue it; returns its id, or the id of the job that the Idempotency-Key already made.

        ``weight``: the tenant's share of the workers, beside those of others. ``KeyReused`` when that key came with
        another body.
        """
        webhook = spec.webhook
        outcome, found = self._scripts.run(
            "submit",
            job=job_id,
            version=RECORD_VERSION,
            base_model=spec.base_model,
            group=group_of(spec),
            spec=spec.model_dump_json(),
            steps=spec.steps * spec.num_images,
            tenant=tenant,
            idempotency_key=idempotency_key,
            idempotency_ms=IDEMPOTENCY_MS,
            body_sha256=body_sha256,
            head_start_ms=HEAD_START_MS[spec.priority],
            guessed_step_us=GUESSED_STEP_US,
            weight=weight,
            deadline_ms=math.ceil((spec.deadline_seconds or 0) * 1000),
            retention_ms=self._settings.retention_s * 1000,
            warnings=json.dumps(list(warnings)),
            webhook_url=webhook.url if webhook else "",
            webhook_events=",".join(webhook.events) if webhook else "",
        )
        if outcome == "conflict":
            raise KeyReused(_KEY_REUSED)
        return found

    def replayed(self, idempotency_key: str, body_sha256: str, tenant: str = DEFAULT_TENANT) -> str | None:
        """The job that this Idempotency-Key already made, so that a repeat need not pass admission again.

        None when the key is new; ``KeyReused`` when it came with another body.
        """
        known = fields_of(self._redis, keys.IDEMPOTENCY(tenant, idempotency_key))
        if known and known["body_sha256"] != body_sha256:
            raise KeyReused(_KEY_REUSED)
        return known.get("job")

    def get(self, job_id: str) -> Job:
        """The job's record, or ``JobNotFound``."""
        fields = fields_of(self._redis, keys.JOB(job_id))
        if not fields:
            raise JobNotFound(f"No job {job_id!r} is known here.")
        return read_job(fields)

    def position(self, job: Job) -> int | None:
        """How many waiting jobs of the same base model rank before this one; None when it does not wait."""
        with reached():
            return cast("int | None", self._redis.zrank(keys.WAITING(job.base_model), job.id))

    def cancel(self, job_id: str) -> Status:
        """Cancel the job; returns the status it had. ``JobNotFound`` when it is not known."""
        (had,) = self._scripts.run("cancel", job=job_id)
        if had == "absent":
            raise JobNotFound(f"No job {job_id!r} is known here.")
        return Status(had)

    def newest(self, statuses: Iterable[Status], limit: int, before: Row | None = None) -> tuple[list[Job], Row | None]:
        """Up to ``limit`` jobs of these states, newest first, those before a row only.

        Also the page's last row where more jobs follow it, else None.
        """
        # At one instant, because a job that moves between two reads would be found twice or not at all.
        with reached(), self._redis.pipeline(transaction=True) as pipe:
            for status in statuses:
                pipe.zrevrangebyscore(
                    keys.INDEX(status), before[0] if before else "+inf", "-inf", 0, limit + 64, withscores=True
                )
            found = [(int(score), job) for rows in pipe.execute() for job, score in rows]
        ordered = sorted((row for row in found if before is None or row < before), reverse=True)
        page = ordered[:limit]
        with reached(), self._redis.pipeline(transaction=False) as pipe:
            for _, job in page:
                pipe.hgetall(keys.JOB(job))
            # A record can be gone before its row.
            found_jobs = [_read_if_known(fields) for fields in pipe.execute() if fields]
        jobs = [job for job in found_jobs if job]
        return jobs, page[-1] if len(ordered) > limit else None

    def pause(self, base_model: str) -> None:
        """Hand out no more jobs of the base model; what runs goes on. Lasts until ``resume``."""
        with reached():
            self._redis.set(keys.PAUSED(base_model), 1)

    def resume(self, base_model: str) -> None:
        """End a pause; harmless where there is none."""
        with reached():
            self._redis.delete(keys.PAUSED(base_model))

    def is_paused(self, base_model: str) -> bool:
        """Whether the queue hands out nothing now."""
        with reached():
            return bool(self._redis.exists(keys.PAUSED(base_model)))

    def drain(self, worker: str) -> None:
        """Give one worker no more jobs; what it has goes on. Lasts until ``undrain``, or until it is long dead."""
        with reached():
            self._redis.set(keys.DRAINED(worker), 1, px=DRAINED_MS)

    def undrain(self, worker: str) -> None:
        """Give the worker jobs again; harmless where it was not drained."""
        with reached():
            self._redis.delete(keys.DRAINED(worker))

    def is_drained(self, worker: str) -> bool:
        """Whether the worker gets no more jobs."""
        with reached():
            return bool(self._redis.exists(keys.DRAINED(worker)))

    # --- by workers -------------------------------------------------------------------------------

    def look(self, base_model: str, resident: str = "", worker: str = "") -> list[WaitingGroup]:
        """The oldest groups that wait, and the resident one if it waits too, as this worker sees them."""
        flat = self._scripts.run(
            "snapshot",
            base_model=base_model,
            resident=resident,
            worker=worker,
            version=RECORD_VERSION,
            heads=HEADS_CONSIDERED,
            alive_ms=ALIVE_MS,
        )
        width = len(WaitingGroup._fields)
        return [waiting_group(*flat[start : start + width]) for start in range(0, len(flat), width)]

    def reserve(self, base_model: str, group: str, worker: str, *, mark_ms: int = MARK_MS) -> Job | None:
        """Mark the job of this group that the worker is likely to claim next; returns it, or None if there is none.

        A mark is no lease: it changes no job, counts nothing, and ends by itself, with the worker's next claim, or with
        its next mark. Meanwhile other workers prefer other jobs, but take this one rather than none.
        """
        flat = self._scripts.run("reserve", base_model=base_model, group=group, worker=worker, mark_ms=mark_ms)
        try:
            return read_job(dict(zip(flat[0::2], flat[1::2], strict=True))) if flat else None
        except ValueError:
            # Whoever claims it ends it.
            return None

    def unreserve(self, base_model: str, worker: str) -> None:
        """Take the worker's mark back."""
        self.reserve(base_model, _NO_GROUP, worker)

    def claim(
        self, base_model: str, group: str, worker: str, *, holder: str = "", token: str = ""
    ) -> Job | Literal["empty", "bound"]:
        """Claim the group's head. "empty": nothing waits there; "bound": the oldest job must be served first.

        A head that another worker has reserved is passed over where the group has more jobs and the bound allows it.

        ``holder``: the one child of the worker that will work on it. ``token``: the same for every try of one claim,
        because a try whose answer is lost has claimed all the same. A record that cannot be read ends the job; one that
        a newer version stored is left to a worker that knows it.
        """
        outcome, *flat = self._scripts.run(
            "claim",
            base_model=base_model,
            group=group,
            worker=worker,
            holder=holder or worker,
            token=token or secrets.token_hex(16),
            version=RECORD_VERSION,
            lease_ms=self._settings.lease_ms,
            overtake_max=self._settings.overtake_max,
        )
        if outcome == "claimed":
            return self._readable(dict(zip(flat[0::2], flat[1::2], strict=True)))
        return "bound" if outcome == "bound" else "empty"

    def renew(self, job_id: str, attempt: int) -> Held:
        """Renew the lease."""
        return self._held("renew", job=job_id, attempt=attempt, lease_ms=self._settings.lease_ms)

    def progress(self, job_id: str, attempt: int, step: int, steps: int) -> Held:
        """Renew the lease and record that ``step`` of ``steps`` is done."""
        return self._held(
            "renew", job=job_id, attempt=attempt, lease_ms=self._settings.lease_ms, step=step, steps=steps
        )

    def place(self, job_id: str, attempt: int, object_keys: Sequence[str]) -> Held | Literal["done"]:
        """Record the keys that are about to be uploaded. "done": this attempt has succeeded before; keep its images."""
        (answer,) = self._scripts.run("place", job=job_id, attempt=attempt, keys=list(object_keys))
        return "done" if answer == "done" else _held("place", answer)

    def succeed(self, job_id: str, attempt: int, result: Result, warnings: Sequence[str]) -> Held:
        """End the job with its images. Anything but "ok": it did not succeed, delete the images."""
        return self._finish(
            job_id, attempt, Status.SUCCEEDED, warnings, result=result.model_dump_json(),
            object_keys=[image.key for image in result.images],
        )  # fmt: skip

    def fail(self, job_id: str, attempt: int, error: JobError, warnings: Sequence[str] = ()) -> Held:
        """End the job with an error."""
        return self._finish(job_id, attempt, Status.FAILED, warnings, error=error.model_dump_json())

    def stop(self, job_id: str, attempt: int, how: Literal["cancelled", "expired"]) -> Held:
        """End the job as it was asked to."""
        return self._finish(job_id, attempt, Status(how), ())

    def give_back(self, job_id: str, attempt: int) -> Held:
        """Hand the job back at its old rank; this is not a counted attempt."""
        return self._held("give_back", job=job_id, attempt=attempt)

    def abandon(self, holder: str, *, keep: Iterable[str], counted: bool) -> list[str]:
        """Take all jobs but ``keep`` from a holder. ``counted``: it died with them."""
        return self._scripts.run("abandon", holder=holder, keep=list(keep), counted=counted, **self._loss())

    # --- by anyone, on a timer --------------------------------------------------------------------

    def reclaim(self, most: int = 100) -> list[str]:
        """Return expired leases, end jobs past their deadline; returns the jobs that changed."""
        with reached():
            run_id = str(self._redis.info("server")["run_id"])
        return self._scripts.run(
            "reclaim", server_run=run_id, lease_ms=self._settings.lease_ms, most=most, **self._loss()
        )

    def try_timer(self, timer: str, hold_ms: int) -> bool:
        """Whether this process may do the timer's work now; nobody else may for ``hold_ms``."""
        with reached():
            return bool(self._redis.set(keys.TIMER_LOCK(timer), "held", nx=True, px=hold_ms))

    def orphans(self, older_than_ms: int, forget: Sequence[str] = (), most: int = 100) -> list[str]:
        """Object keys that no job will ever name; ``forget`` those already deleted."""
        return self._scripts.run("sweep", older_than_ms=older_than_ms, forget=list(forget), most=most)

    def depth(self, base_model: str) -> int:
        """How many jobs wait for the base model."""
        with reached():
            return int(self._redis.zcard(keys.WAITING(base_model)))

    def oldest_version(self, base_model: str) -> int:
        """Version of the oldest waiting job's record; 0 when nothing waits."""
        oldest = members_of(self._redis, keys.WAITING(base_model), 0, 0)
        with reached():
            return int(self._redis.hget(keys.JOB(oldest[0]), "version") or 0) if oldest else 0

    def waited_for(self) -> list[str]:
        """Names of the base models that jobs wait for, whether they are served here or not; sorted."""
        return members_of(self._redis, keys.QUEUES())

    def running(self) -> Counter[str]:
        """How many jobs hold a lease, per base model."""
        with reached(), self._redis.pipeline(transaction=False) as pipe:
            held = members_of(self._redis, keys.LEASES())
            for job in held:
                pipe.hget(keys.JOB(job), "base_model")
            # A record can end between the two reads.
            return Counter(base for base in pipe.execute() if base)

    def counts(self) -> dict[Status, int]:
        """How many jobs are of each state; ended ones as long as they are listed."""
        with reached(), self._redis.pipeline(transaction=True) as pipe:
            for status in Status:
                pipe.zcard(keys.INDEX(status))
            return dict(zip(Status, pipe.execute(), strict=True))

    def head(self, base_model: str, group: str) -> Job | None:
        """The group's oldest waiting job."""
        ids = members_of(self._redis, keys.GROUP(base_model, group), 0, 0)
        fields = fields_of(self._redis, keys.JOB(ids[0])) if ids else {}
        return read_job(fields) if fields else None

    def stats(self, base_model: str) -> dict[str, int]:
        """Counters of the base model: claims, swaps, overtaken_max; and the clocks of its turns."""
        return {name: int(value) for name, value in fields_of(self._redis, keys.STATS(base_model)).items()}

    def count_swap(self, base_model: str) -> None:
        """Count one change of the adapters in some worker's slot."""
        with reached():
            self._redis.hincrby(keys.STATS(base_model), "swaps", 1)

    def server_time_ms(self) -> int:
        """The server's clock, Unix milliseconds."""
        with reached():
            seconds, microseconds = self._redis.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    # ----------------------------------------------------------------------------------------------

    def _readable(self, fields: dict[str, str]) -> Job | Literal["empty"]:
        try:
            return read_job(fields)
        except ValueError:
            # It would be claimed again and again, and in front of everybody else once it is the oldest.
            log.exception("the record of job %s cannot be read", fields.get("id"))
            message = "The job's record cannot be read by this version of Hotslot; submit it again."
            error = JobError(code="record_unreadable", message=message, retryable=True)
            self.fail(fields["id"], int(fields["attempt"]), error)
            return "empty"

    def _finish(
        self,
        job_id: str,
        attempt: int,
        status: Status,
        warnings: Sequence[str],
        *,
        result: str = "",
        error: str = "",
        object_keys: Sequence[str] = (),
    ) -> Held:
        return self._held(
            "finish", job=job_id, attempt=attempt, status=status.value, result=result, error=error,
            warnings=json.dumps(list(warnings)), keys=list(object_keys),
        )  # fmt: skip

    def _held(self, script: str, **arguments: object) -> Held:
        (answer,) = self._scripts.run(script, **arguments)
        return _held(script, answer)

    def _loss(self) -> dict[str, object]:
        limit = self._settings.max_lost_attempts
        message = f"Workers died with this job {limit} times; check its adapters and size, then submit it again."
        error = JobError(code=WorkerLost.code, message=message, retryable=WorkerLost.retryable)
        return {"max_losses": limit, "lost_error": error.model_dump_json()}


def _read_if_known(fields: dict[str, str]) -> Job | None:
    """The job, or None where this version cannot read its record: one such record must not hide all others."""
    try:
        return read_job(fields)
    except ValueError:
        log.warning("the record of job %s cannot be read by this version", fields.get("id"))
        return None


def _held(script: str, answer: str) -> Held:
    if answer not in ("ok", "lost", "cancelled", "expired"):
        raise AssertionError(f"script {script} answered {answer!r}")
    return answer  # type: ignore[return-value]
