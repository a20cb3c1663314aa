from __future__ import annotations

from dataclasses import dataclass

import pytest

from cli.supervise import LONGEST_PAUSE_S, GiveUp, Restart, Supervisor, after_death, described
from shared.errors import Misconfigured
from tests.cli.patience import until


@dataclass
class FakeKept:
    """Something that dies when the test says so."""

    name: str
    journal: list[str]
    stubborn: bool = False
    refuses: bool = False
    code: int | None = None
    starts: int = 0
    words: str = ""

    def start(self) -> None:
        if self.refuses:
            raise Misconfigured("no such folder")
        self.starts += 1
        self.code = None
        self.journal.append(f"start {self.name}")

    def status(self) -> int | None:
        return self.code

    def last_words(self) -> str:
        return self.words

    def terminate(self) -> None:
        self.journal.append(f"terminate {self.name}")
        if not self.stubborn:
            self.code = 0

    def kill(self) -> None:
        self.journal.append(f"kill {self.name}")
        self.code = -9


def test_pauses_double_up_to_a_limit() -> None:
    pauses = [after_death(1, deaths, None) for deaths in range(1, 8)]
    assert pauses == [Restart(pause) for pause in (1, 2, 4, 8, 16, LONGEST_PAUSE_S, LONGEST_PAUSE_S)]


def test_a_refusal_is_not_tried_again() -> None:
    assert after_death(2, 1, None) == GiveUp("refused to start")


def test_deaths_in_a_row_have_a_limit_where_one_is_set() -> None:
    assert after_death(-9, 2, 3) == Restart(2)
    assert after_death(-9, 3, 3) == GiveUp("was killed (SIGKILL) 3 times in a row")


@pytest.mark.parametrize(
    ("status", "words"), [(0, "ended (status 0)"), (-15, "was killed (SIGTERM)"), (-99, "was killed (signal 99)")]
)
def test_a_status_in_words(status: int, words: str) -> None:
    assert described(status) == words


def test_stages_start_in_order_and_stop_in_reverse() -> None:
    journal: list[str] = []
    server, api, worker = (FakeKept(name, journal) for name in ("server", "api", "worker"))
    supervisor = Supervisor([[server], [api, worker]], lambda *_: None)
    supervisor.start()
    supervisor.stop(5, hurry=lambda: False)
    names = ["start server", "start api", "start worker", "terminate api", "terminate worker", "terminate server"]
    assert journal == names


def test_what_dies_is_started_again_and_said_so() -> None:
    said: list[str] = []
    kept = FakeKept("api", [])
    supervisor = Supervisor([[kept]], lambda name, line: said.append(line))
    supervisor.start()
    kept.code = -9
    until(lambda: kept.starts == 2)
    supervisor.stop(5, hurry=lambda: False)
    assert said == ["api was killed (SIGKILL); starting it again in 1 s"]
    assert supervisor.failure is None


def test_a_refusal_is_a_failure_with_its_reason() -> None:
    kept = FakeKept("worker", [], words="The catalogue is not valid.")
    supervisor = Supervisor([[kept]], lambda *_: None)
    supervisor.start()
    kept.code = 2
    until(lambda: supervisor.failure)
    supervisor.stop(5, hurry=lambda: False)
    assert supervisor.failure == "worker refused to start: The catalogue is not valid."
    assert kept.starts == 1


def test_a_restart_that_fails_counts_as_a_death() -> None:
    kept = FakeKept("valkey", [])
    supervisor = Supervisor([[kept]], lambda *_: None, most_deaths=2)
    supervisor.start()
    kept.refuses = True
    kept.code = 1
    until(lambda: supervisor.failure)
    supervisor.stop(5, hurry=lambda: False)
    assert supervisor.failure is not None
    assert "2 times in a row" in supervisor.failure


def test_what_does_not_end_is_killed() -> None:
    journal: list[str] = []
    said: list[str] = []
    kept = FakeKept("worker", journal, stubborn=True)
    supervisor = Supervisor([[kept]], lambda name, line: said.append(line))
    supervisor.start()
    supervisor.stop(0.2, hurry=lambda: False)
    assert journal == ["start worker", "terminate worker", "kill worker"]
    assert said == ["worker has not ended; it is killed"]


def test_hurry_does_not_wait_for_the_grace() -> None:
    kept = FakeKept("worker", [], stubborn=True)
    supervisor = Supervisor([[kept]], lambda *_: None)
    supervisor.start()
    supervisor.stop(3600, hurry=lambda: True)
    assert kept.journal[-1] == "kill worker"


def test_after_a_start_that_failed_halfway_only_what_runs_is_stopped() -> None:
    journal: list[str] = []
    server, api = FakeKept("server", journal), FakeKept("api", journal, refuses=True)
    supervisor = Supervisor([[server], [api]], lambda *_: None)
    with pytest.raises(Misconfigured):
        supervisor.start()
    supervisor.stop(5, hurry=lambda: False)
    assert journal == ["start server", "terminate server"]
