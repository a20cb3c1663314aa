"""Which keys may be left when all work is done."""

from __future__ import annotations

import pytest

from bench.chaos.keyspace import kind_of, leaked
from shared import keys


@pytest.mark.parametrize("key", keys.ALL, ids=lambda key: key.name)
def test_every_key_is_told_by_its_name(key: keys.Key) -> None:
    assert kind_of(key(*("x" for _ in key.parts))) == key


def test_work_that_is_left_has_no_lifetime() -> None:
    found = [(keys.JOB("a"), -1), (keys.JOB("b"), 1000), (keys.LEASES(), -1), (keys.OUTBOX_ROW("evt_a"), -1)]
    assert leaked(found) == sorted([keys.JOB("a"), keys.LEASES(), keys.OUTBOX_ROW("evt_a")])


def test_what_is_kept_for_ever_may_stay() -> None:
    assert leaked([(keys.STATS("tiny-flux"), -1), (keys.ADAPTERS(), -1), (keys.RECEIPT_KEYS(), -1)]) == []


def test_strangers_are_leaks_even_if_they_will_end_but_the_brokers_keys_are_not() -> None:
    assert leaked([("hotslot:new:thing", 1000), ("whatever", -1)]) == ["hotslot:new:thing", "whatever"]
    assert leaked([("_kombu.binding.notify", -1), ("unacked_index", -1), ("base.tiny-flux", -1), ("notify", -1)]) == []
