"""The run: start the stack, let jobs and faults loose on it, wait until it has settled, judge."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from bench.chaos.evidence import Evidence, Look, Rest
from bench.chaos.faults import OWN_NAME, Faults
from bench.chaos.plan import FAULTS, LEAST_OF_EACH, plan
from bench.chaos.receiver import running_receiver
from bench.chaos.requests import draw
from bench.chaos.stack import WORKERS, ChaosStack
from bench.chaos.traffic import Traffic
from bench.chaos.verdict import Fault, counts, judge, pictures
from cli.client import Client
from cli.log_lines import FileLog
from cli.processes import Say
from shared.errors import Misconfigured, Unavailable

START_S = 300.0
SETTLE_S = 240.0
"""A job may need its lease's end and a worker's restart; an event of a notifier that died falls due after half a
minute and is retried twice; an object of a lost attempt is swept a minute and a half after it was announced."""
GLANCE_S = 1.0
MOST_SENTENCES = 40


def run(seconds: float, settle_s: float, most_open: int, seed: int, out: Path) -> dict[str, Any]:
    """The report. Raises SetupError where the stack does not come up."""
    logs = out / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    random = Random(seed)
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
        served = stack.served()
        traffic = Traffic(clients, lambda number: draw(random, number, served, receiver.url), most_open, Random(seed))
        faults = Faults(stack, Random(seed), say)
        with _traffic(traffic):
            _do_damage(stack, faults, plan(Random(seed), seconds), seconds)
            faults.join()
            say(OWN_NAME, "the damage is done")
            _await_api(stack, clients)
        began_s = time.monotonic()
        look = Look(stack.settings)
        rest = _settle(stack, look, settle_s, say)
        settled_s = time.monotonic() - began_s
        evidence = look.gather(traffic.followed, clients[0], receiver.calls)
        report = report_of(evidence, judge(evidence), faults.done, faults.on_a_job, traffic.refusals)
        return report | {
            "still_open": rest.__dict__,
            "settled_s": round(settled_s, 1),
            "settle_limit_s": settle_s,
            "seconds": seconds,
            "seed": seed,
            "retries_of_callers": traffic.unavailable,
            "cpus": os.cpu_count(),
            "load_average": [round(load, 1) for load in os.getloadavg()],
        }


def report_of(
    evidence: Evidence, found: list[Fault], done: Counter[str], on_a_job: Counter[str], refusals: Counter[str]
) -> dict[str, Any]:
    """The numbers, and whether all is as promised."""
    records = [job.record for job in evidence.jobs if job.record]
    by_status = Counter(record.status.value for record in records)
    compared = pictures(evidence.jobs)
    broken = counts(found)
    return {
        "ok": not found and not refusals and all(done[fault] >= LEAST_OF_EACH for fault in FAULTS),
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
        "broken": [f"{fault.kind}: {fault.sentence}" for fault in found[:MOST_SENTENCES]],
    }


def _do_damage(stack: ChaosStack, faults: Faults, planned: list[Any], seconds: float) -> None:
    began_s = time.monotonic()
    for at_s, fault in [*planned, (seconds, None)]:
        time.sleep(max(0.0, began_s + at_s - time.monotonic()))
        _check(stack)
        if fault is not None:
            faults.begin(fault)


@contextmanager
def _traffic(traffic: Traffic) -> Iterator[None]:
    traffic.start()
    yield
    traffic.stop()


def _settle(stack: ChaosStack, look: Look, settle_s: float, say: Say) -> Rest:
    until_s = time.monotonic() + settle_s
    while not (rest := look.rest()).none and time.monotonic() < until_s:
        _check(stack)
        if int(until_s - time.monotonic()) % 15 == 0:
            say(OWN_NAME, f"settling: {rest}")
        time.sleep(GLANCE_S)
    return rest


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
