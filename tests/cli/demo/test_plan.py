from __future__ import annotations

from cli.demo.plan import CYCLE, JOBS, NEW_COLOUR, NEW_SHAPE, make_plan, swaps_in_order
from shared.catalogue import read_catalogue
from shared.job import Status
from shared.request import JobRequest

URL = "http://127.0.0.1:1/webhook"


def test_the_plan_has_what_the_demo_shows() -> None:
    plan = make_plan(URL)
    assert len(plan) == JOBS == 24
    assert [one.number for one in plan] == list(range(JOBS))
    assert sum(one.webhook_url == URL for one in plan) == 1
    assert [one.ends for one in plan].count(Status.CANCELLED) == 1
    assert sum(not one.adapters for one in plan) == 3
    assert sum(len(one.adapters) == 2 for one in plan) == 1
    assert sum(any(adapter.scale == 0.5 for adapter in one.adapters) for one in plan) == 2
    served = read_catalogue().get("tiny-flux").builtin_adapters
    assert {adapter.source for one in plan for adapter in one.adapters} == set(served)


def test_no_two_jobs_are_alike() -> None:
    plan = make_plan(URL)
    assert len({(one.prompt, one.adapters) for one in plan}) == JOBS
    assert len({one.file_name for one in plan}) == JOBS


def test_within_a_round_only_the_adapters_differ() -> None:
    plan = make_plan(URL)[: len(CYCLE)]
    assert len({one.seed for one in plan}) == 1
    words = [one.prompt.replace(NEW_SHAPE, "circle").replace(NEW_COLOUR, "red") for one in plan]
    assert set(words) == {"a large red circle on a blue background"}


def test_a_new_word_is_said_just_where_its_adapter_is() -> None:
    for one in make_plan(URL):
        names = {adapter.source for adapter in one.adapters}
        assert (NEW_SHAPE in one.prompt.split()) == (NEW_SHAPE in names)
        assert (NEW_COLOUR in one.prompt.split()) == (NEW_COLOUR in names)
        assert "{" not in one.prompt


def test_every_request_is_one_that_the_catalogue_serves() -> None:
    catalogue = read_catalogue()
    for one in make_plan(URL):
        request = JobRequest.model_validate(one.body())
        entry = catalogue.get(request.base_model or "")
        assert {adapter.source for adapter in request.adapters} <= set(entry.builtin_adapters)
        assert (request.steps or 1) <= entry.sampling.largest_steps
        assert (request.width or 32) <= entry.sizes.largest


def test_the_interleaving_makes_arrival_order_dear() -> None:
    groups = [frozenset(adapter.source for adapter in one.adapters) for one in make_plan(URL)]
    assert swaps_in_order(groups) >= JOBS - 1
    assert swaps_in_order(sorted(groups, key=sorted)) == len(set(groups)) - 1


def test_swaps_are_counted_from_an_empty_slot() -> None:
    a, b, none = frozenset({"a"}), frozenset({"b"}), frozenset[str]()
    assert swaps_in_order([]) == 0
    assert swaps_in_order([none, none]) == 0
    assert swaps_in_order([a]) == 1
    assert swaps_in_order([a, a, b, a, none, none, a]) == 5
