"""The faults and the requests of a chaos run, before any process is there."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest

from bench.chaos.plan import FAULTS, LEAST_OF_EACH, plan
from bench.chaos.receiver import failures_of
from bench.chaos.requests import Asked, adapter_sets, draw

SERVED = {"one": adapter_sets({"a": 4, "b": 4, "c": 16}, 16), "two": adapter_sets({"d": 8, "e": 8}, 16)}


@pytest.mark.parametrize("seconds", [10.0, 120.0, 600.0])
@pytest.mark.parametrize("seed", range(5))
def test_every_fault_comes_often_enough_and_never_twice_in_a_row(seconds: float, seed: int) -> None:
    planned = plan(Random(seed), seconds)
    kinds = [kind for _, kind in planned]
    assert min(Counter(kinds)[kind] for kind in FAULTS) >= LEAST_OF_EACH
    assert all(one != other for one, other in pairwise(kinds))
    times = [at_s for at_s, _ in planned]
    assert times == sorted(times)
    assert 0 < times[0] <= times[-1] < seconds


def test_longer_runs_have_more_faults() -> None:
    assert len(plan(Random(1), 600.0)) > len(plan(Random(1), 120.0)) >= 20


def test_only_pairs_that_fit_are_asked_for() -> None:
    assert adapter_sets({"b": 9, "a": 4, "c": 7}, 12) == [
        (),
        (("a", 1.0),),
        (("b", 1.0),),
        (("c", 1.0),),
        (("a", 0.5), ("c", 0.5)),
    ]


def requests(count: int) -> list[Asked]:
    random = Random(3)
    return [draw(random, number, SERVED, "http://127.0.0.1:1/hook") for number in range(count)]


def test_requests_ask_only_for_what_their_base_model_serves() -> None:
    asked = requests(500)
    assert Counter(one.body["base_model"] for one in asked)["one"] > 250
    for base_model, sets in SERVED.items():
        assert {one.adapters for one in asked if one.body["base_model"] == base_model} == set(sets)
    assert len({one.idempotency_key for one in asked}) == len(asked)


def test_many_requests_have_a_twin() -> None:
    kinds = Counter(one.picture for one in requests(300))
    assert sum(count for count in kinds.values() if count > 1) > 200


def test_some_are_long_some_are_cancelled_and_some_expire() -> None:
    asked = requests(500)
    assert 20 < sum(one.cancel_after_s is not None for one in asked) < 120
    assert 20 < sum(one.body["steps"] > 2 for one in asked) < 120
    assert 2 < sum("deadline_seconds" in one.body for one in asked) < 50


def test_a_third_of_all_calls_fails() -> None:
    failures = [failures_of(f"evt_{number}") for number in range(3000)]
    assert set(failures) == {0, 1, 2}
    calls = sum(failures) + len(failures)
    assert sum(failures) / calls == pytest.approx(1 / 3, abs=0.02)
