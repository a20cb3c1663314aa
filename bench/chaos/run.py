"""The run: start the stack, let jobs and faults loose on it, wait until it has settled, judge."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from bench.chaos.evidence import Evidence, Look
from bench.chaos.faults import OWN_NAME, Faults
from bench.chaos.plan import FAULTS, LEAST_OF_EACH, LEAST_ON_A_JOB, Fault, plan
from bench.chaos.receiver import running_receiver
from bench.chaos.requests import draw
from bench.chaos.stack import WORKERS, ChaosStack
from bench.chaos.traffic import Traffic
from bench.chaos.verdict import Broken, counts, judge, pictures
from cli.client import Client
from cli.log_lines import FileLog
from cli.processes import Say
from shared.errors import Misconfigured, Unavailable

START_S = 300.0
SETTLE_S = 240.0
"""A job may need its lease's end and a worker's restart; an event of a notifier that died falls due after half a
minute and is retried twice; an object of a lost attempt is swept a minute and a half after it was announced."""
LEAST_GAP_S = 2.0
"""Between two faults that come late, so that they do not come all at once."""
GLANCE_S = 1.0
SAY_EVERY_S = 15.0
MOST_SENTENCES = 40


def run(seconds: float, settle_s: float, most_open: int, seed: int, out: Path) -> dict[str, Any]:
    """The report. Raises SetupError where the stack does not come up."""
    logs = out / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    with ExitStack() as ends:
        folder = Path(ends.enter_context(TemporaryDirectory(prefix="hotslot-chaos-")))
        log = ends.enter_context(closing(FileLog(logs)))
        say = _both(log)
        stack = ChaosStack(folder, log)
        ends.callback(stack.stop)
        receiver = ends.enter_context(running_receiver(stack.webhook_secret))
        stack.start()
        clients = [ends.enter_context(client) for client in stack.clients()]
        _await_workers(stack, clients[0])
        say(OWN_NAME, f"the stack is up; seed {seed}")
        random, served = Random(seed), stack.served()
        traffic = Traffic(clients, lambda number: draw(random, number, served, receiver.url), most_open, Random(seed))
        faults = Faults(stack, Random(seed), say)
        traffic.start()
        lasted_s = _do_damage(stack, faults, plan(Random(seed), seconds), seconds)
        say(OWN_NAME, "the damage is done")
        _await_api(stack, clients)
        traffic.stop()
        look = Look(stack.settings)
        settled = _settle(stack, look, settle_s, say)
        evidence = look.gather(traffic.followed, clients[0], receiver.calls)
    return report_of(evidence, judge(evidence), faults.done, faults.on_a_job, traffic.refusals) | {
        **settled,
        "seconds": round(lasted_s, 1),
        "seed": seed,
        "retries_of_callers": traffic.unavailable,
        "cpus": os.cpu_count(),
        "load_average": [round(load, 1) for load in os.getloadavg()],
    }


def report_of(
    evidence: Evidence, found: list[Broken], done: Counter[str], on_a_job: Counter[str], refusals: Counter[str]
) -> dict[str, Any]:
    """The numbers, and whether all is as promised."""
    records = [job.record for job in evidence.jobs if job.record]
    by_status = Counter(record.status.value for record in records)
    compared = pictures(evidence.jobs)
    broken = counts(found)
    return {
        "ok": not found and not refusals and _enough(done, on_a_job),
        "accepted": len(evidence.jobs),
        "terminal": sum(record.status.terminal for record in records),
        **broken,
        "kills": dict(done),
        "faults": done.total(),
        "faults_on_a_job": on_a_job.total(),
        "by_status": dict(by_status),
        "failed": dict(Counter(record.error.code for record in records if record.error)),
        "most_attempts": max((record.attempt for record in records), default=0),
        "attempts_lost": sum(record.losses for record in records),
        "refusals": dict(refusals),
        "webhook_calls": len(evidence.calls),
        "webhook_calls_failed": sum(not call.taken for call in evidence.calls),
        "images": sum(hashes.total() for hashes in compared.values()),
        "images_compared_with_a_twin": sum(hashes.total() for hashes in compared.values() if hashes.total() > 1),
        "broken": [f"{one.kind}: {one.sentence}" for one in found[:MOST_SENTENCES]],
    }


def _enough(done: Counter[str], on_a_job: Counter[str]) -> bool:
    """Whether the faults were as many as a run must stand."""
    return all(done[fault] >= LEAST_OF_EACH for fault in FAULTS) and on_a_job.total() >= LEAST_ON_A_JOB


def _do_damage(stack: ChaosStack, faults: Faults, planned: Sequence[tuple[float, Fault]], seconds: float) -> float:
    """One fault after the other, none before its time; how long it took, which is more where workers load slowly."""
    began_s = time.monotonic()
    for at_s, fault in planned:
        _sleep_until(began_s + at_s)
        _check(stack)
        faults.begin(fault)
        time.sleep(LEAST_GAP_S)
    _sleep_until(began_s + seconds)
    faults.join()
    return time.monotonic() - began_s


def _settle(stack: ChaosStack, look: Look, settle_s: float, say: Say) -> dict[str, Any]:
    """Wait until nothing is left to do; what is left, and how long it took."""
    began_s = said_s = time.monotonic()
    while not (rest := look.rest()).none and time.monotonic() < began_s + settle_s:
        _check(stack)
        if time.monotonic() > said_s + SAY_EVERY_S:
            said_s = time.monotonic()
            say(OWN_NAME, f"settling: {rest}")
        time.sleep(GLANCE_S)
    took_s = round(time.monotonic() - began_s, 1)
    return {"still_open": asdict(rest), "settled_s": took_s, "settle_limit_s": settle_s}


def _sleep_until(at_s: float) -> None:
    time.sleep(max(0.0, at_s - time.monotonic()))


def _await_workers(stack: ChaosStack, client: Client) -> None:
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s:
        _check(stack)
        try:
            if sum(worker.takes_jobs for worker in client.workers().workers) >= len(WORKERS):
                return
        except Unavailable:
            pass
        time.sleep(GLANCE_S)
    raise Misconfigured(f"The workers did not come up within {START_S:.0f} s; see the logs.")


def _await_api(stack: ChaosStack, clients: list[Client]) -> None:
    for client in clients:
        until_s = time.monotonic() + START_S
        while time.monotonic() < until_s:
            _check(stack)
            try:
                client.queues()
            except Unavailable:
                time.sleep(GLANCE_S)
            else:
                break


def _check(stack: ChaosStack) -> None:
    if stack.failure:
        raise Misconfigured(f"{stack.failure} See the logs.")


def _both(log: FileLog) -> Say:
    def say(name: str, line: str) -> None:
        stamped = f"{time.strftime('%H:%M:%S')} {line}"
        log(name, stamped)
        print(f"{name} {stamped}", flush=True)

    return say
