"""Encode and upload spooled jobs in the background, while the next job is drawn, and end them."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from shared.errors import HotslotError, Unavailable
from shared.job import ImageRecord, JobError, Receipt, Result
from shared.queue import Held, Queue
from shared.storage import Store
from worker.encode import CONTENT_TYPES, EXTENSIONS, encode
from worker.lease import Interrupted
from worker.persist import persist
from worker.spool import Spool, Spooled

log = logging.getLogger(__name__)

T = TypeVar("T")
ROOM_GLANCE_S = 0.2
MOST_PENDING = 4
"""With more jobs than this waiting for the store, drawing waits too: the disk is no queue."""


@dataclass(frozen=True)
class Encoded:
    """Image files of one job, ready for the store."""

    files: list[bytes]
    images: list[ImageRecord]


class Uploads:
    """A background thread that carries spooled jobs to the store, each within ``budget_s`` of its spooling.

    ``on_end`` is called after each job's end; ``sign`` signs its receipt; ``stop_at_s`` tells the monotonic time by
    which this process must end, or 0.
    """

    def __init__(
        self,
        queue: Queue,
        store: Store,
        spool: Spool,
        budget_s: float,
        on_end: Callable[[], None],
        sign: Callable[[Receipt], Receipt],
        stop_at_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._queue = queue
        self._store = store
        self._spool = spool
        self._budget_s = budget_s
        self._on_end = on_end
        self._sign = sign
        self._stop_at_s = stop_at_s
        self._room = threading.Semaphore(MOST_PENDING)
        self._closing = threading.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="upload")

    def add(self, spooled: Spooled) -> None:
        """Carry this job in the background; waits while too many are under way.

        Raises Interrupted when the process must end before there is room; ``close`` removes it from the spool.
        """
        while not self._room.acquire(timeout=ROOM_GLANCE_S):
            if self._stop_at_s():
                raise Interrupted("handed_back")
        self._thread.submit(self._carry, spooled).add_done_callback(lambda _: self._room.release())

    def close(self, timeout_s: float) -> None:
        """Join what is under way; what the store does not take in time is handed back."""
        deadline_s = time.monotonic() + timeout_s
        joiner = threading.Thread(target=self._thread.shutdown, daemon=True)
        joiner.start()
        joiner.join(timeout_s)
        self._closing.set()
        joiner.join(max(1.0, deadline_s - time.monotonic()))
        for spooled in self._spool.pending():
            try:
                self._queue.give_back(spooled.job_id, spooled.attempt)
            except Unavailable:
                log.warning("job %s could not be handed back; its lease will run out", spooled.job_id)
            self._spool.remove(spooled)

    def _carry(self, spooled: Spooled) -> None:
        until_s = time.monotonic() + max(0.0, spooled.spooled_at_s + self._budget_s - time.time())
        try:
            self._deliver(spooled, until_s)
        except Unavailable as error:
            if self._must_leave():
                # `close` hands it back.
                return
            self._give_up(spooled, error)
        except Exception as error:
            log.exception("job %s could not be delivered", spooled.job_id)
            self._give_up(spooled, HotslotError(f"The images could not be encoded or stored ({type(error).__name__})."))
        self._spool.remove(spooled)
        self._on_end()

    def _deliver(self, spooled: Spooled, until_s: float) -> None:
        started_s = time.monotonic()
        encoded = encode_all(self._spool, spooled)
        encoded_s = time.monotonic()
        keys = [image.key for image in encoded.images]
        placed = self._try(partial(self._queue.place, spooled.job_id, spooled.attempt, keys), until_s)
        if placed == "done":
            return
        held: Held = placed
        if held == "ok":
            for image, data in zip(encoded.images, encoded.files, strict=True):
                self._try(partial(self._store.put, image.key, data, image.content_type), until_s)
            timings_ms = spooled.timings_ms | {
                "encode_image": (encoded_s - started_s) * 1000,
                "upload": (time.monotonic() - encoded_s) * 1000,
            }
            result = finished(spooled, encoded.images, timings_ms, self._sign)
            held = self._try(
                partial(self._queue.succeed, spooled.job_id, spooled.attempt, result, spooled.warnings), until_s
            )
        if held != "ok":
            self._discard(spooled, held, keys, until_s)

    def _discard(self, spooled: Spooled, held: Held, keys: list[str], until_s: float) -> None:
        log.info("job %s attempt %d: images dropped (%s)", spooled.job_id, spooled.attempt, held)
        for key in keys:
            self._try(partial(self._store.delete, key), until_s)
        if held in ("cancelled", "expired"):
            self._try(partial(self._queue.stop, spooled.job_id, spooled.attempt, held), until_s)

    def _give_up(self, spooled: Spooled, error: HotslotError) -> None:
        failure = JobError.of(error)
        try:
            self._try(
                partial(self._queue.fail, spooled.job_id, spooled.attempt, failure, spooled.warnings),
                time.monotonic() + self._budget_s,
            )
        except Exception:
            log.exception("job %s could not be ended; its lease will run out", spooled.job_id)

    def _must_leave(self) -> bool:
        return self._closing.is_set() or 0 < self._stop_at_s() < time.monotonic()

    def _try(self, call: Callable[[], T], until_s: float) -> T:
        return persist(call, until_s, self._must_leave)


def encode_all(spool: Spool, spooled: Spooled) -> Encoded:
    """The job's image files and their records; keys hold job and attempt, never words of the request."""
    files, images = [], []
    for number, image in enumerate(spooled.images):
        data = encode(spool.pixels(spooled, image), image.width, image.height, spooled.format)
        files.append(data)
        images.append(
            ImageRecord(
                key=f"jobs/{spooled.job_id}/{spooled.attempt}/{number}.{EXTENSIONS[spooled.format]}",
                sha256=hashlib.sha256(data).hexdigest(),
                width=image.width,
                height=image.height,
                content_type=CONTENT_TYPES[spooled.format],
                seed=image.seed,
            )
        )
    return Encoded(files, images)


def finished(
    spooled: Spooled, images: list[ImageRecord], timings_ms: dict[str, float], sign: Callable[[Receipt], Receipt]
) -> Result:
    """The job's result, its receipt completed with the images' hashes and signed."""
    receipt = spooled.receipt.model_copy(update={"images_sha256": [image.sha256 for image in images]})
    return Result(
        images=images,
        receipt=sign(receipt),
        timings_ms={name: round(value, 3) for name, value in timings_ms.items()},
    )
