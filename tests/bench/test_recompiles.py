"""What the bench draws its jobs from."""

from __future__ import annotations

from bench.recompiles import RANKS, SIZES, TIERS, combinations


def test_the_combinations_are_distinct_and_fit() -> None:
    known = combinations()
    assert len(set(known)) == len(known)
    for combination in known:
        assert sum(RANKS[name] for name, _ in combination.adapters) <= TIERS[-1]


def test_every_tier_several_adapters_and_none_occur_at_both_sizes() -> None:
    for size in SIZES:
        there = [combination.adapters for combination in combinations() if combination.size == size]
        ranks = {max((RANKS[name] for name, _ in adapters), default=0) for adapters in there}
        assert {min((tier for tier in TIERS if tier >= rank), default=0) for rank in ranks if rank} == set(TIERS)
        assert {len(adapters) for adapters in there} == {0, 1, 2}
