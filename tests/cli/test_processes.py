"""Real programs, real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.processes import Command, Process
from shared.errors import Misconfigured
from tests.cli.patience import PATIENCE_S, lives, until

ROOT = Path(__file__).parents[2]
SPEAKS = """
import sys
print("to stdout", flush=True)
print("to stderr", file=sys.stderr)
sys.exit(7)
"""

STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: print("no", flush=True))
print("ready", flush=True)
time.sleep(600)
"""

WITH_CHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""

SUPERVISOR = """
import os, sys, time
from cli.processes import Command, Process
said = []
process = Process(Command("child", (sys.executable, "-c", sys.argv[1]), os.environ), lambda _, line: said.append(line))
while not said:
    time.sleep(0.01)
print(process.pid, said[0], flush=True)
time.sleep(600)
"""


class Started:
    """A program, and what it said."""

    def __init__(self, program: str, **environment: str) -> None:
        self.said: list[str] = []
        command = Command("child", (sys.executable, "-c", program), os.environ | environment)
        self.process = Process(command, lambda name, line: self.said.append(f"{name}: {line}"))


def test_both_outputs_arrive_whole_with_the_exit_status() -> None:
    started = Started(SPEAKS)
    assert started.process.wait(PATIENCE_S) == 7
    assert sorted(started.said) == ["child: to stderr", "child: to stdout"]
    assert started.process.last_words in ("to stderr", "to stdout")


def test_the_environment_is_exactly_the_given_one() -> None:
    program = "import os; print(os.environ.get('GIVEN'), os.environ.get('HOME'))"
    said: list[str] = []
    command = Command("child", (sys.executable, "-c", program), {"GIVEN": "yes"})
    assert Process(command, lambda _, line: said.append(line)).wait(PATIENCE_S) == 0
    assert said == ["yes None"]


def test_terminate_asks_and_kill_does_not() -> None:
    started = Started(STUBBORN)
    until(lambda: started.said)
    started.process.terminate()
    until(lambda: "child: no" in started.said)
    assert started.process.status() is None
    started.process.kill()
    assert started.process.wait(PATIENCE_S) == -signal.SIGKILL


def test_kill_also_ends_what_the_program_started() -> None:
    started = Started(WITH_CHILD)
    until(lambda: started.said)
    grandchild = int(started.said[0].removeprefix("child: "))
    started.process.kill()
    assert started.process.wait(PATIENCE_S) == -signal.SIGKILL
    until(lambda: not lives(grandchild))


def test_nothing_is_left_of_a_program_that_was_killed_from_outside() -> None:
    started = Started(WITH_CHILD)
    until(lambda: started.said)
    grandchild = int(started.said[0].removeprefix("child: "))
    os.kill(started.process.pid, signal.SIGKILL)
    until(lambda: started.process.status() is not None)
    until(lambda: not lives(grandchild))


def test_the_terminals_interrupt_does_not_reach_it() -> None:
    started = Started("import time; print('ready', flush=True); time.sleep(600)")
    until(lambda: started.said)
    assert os.getsid(started.process.pid) != os.getsid(0)
    assert os.getpgid(started.process.pid) != os.getpgid(0)
    started.process.kill()
    started.process.wait(PATIENCE_S)


def test_nothing_is_left_when_the_supervisor_is_killed() -> None:
    command = [sys.executable, "-c", SUPERVISOR, WITH_CHILD]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=environment) as supervisor:
        assert supervisor.stdout is not None
        pids = [int(word) for word in supervisor.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(lives, pids))
        supervisor.kill()
    until(lambda: not any(map(lives, pids)))


def test_a_program_that_cannot_be_started_is_an_error_with_the_reason() -> None:
    command = Command("child", ("/nowhere/program",), os.environ)
    with pytest.raises(Misconfigured, match="/nowhere/program"):
        Process(command, lambda *_: None)
