from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cli.demo.checks import faults, order_faults, webhook_verified
from cli.demo.outcome import Cancelling, Outcome
from cli.demo.plan import BY_WEBHOOK, CANCELLED, JOBS
from cli.demo.receiver import Received
from shared.job import JobError, Receipt, Status
from tests.cli.demo.outcomes import good_outcome, spoilt


@pytest.fixture
def good(tmp_path: Path) -> Outcome:
    return good_outcome(tmp_path)


def receipt_of(outcome: Outcome, number: int) -> Receipt:
    receipt = outcome.ended[number].job.receipt
    assert receipt is not None
    return receipt


def test_a_good_demo_has_no_fault(good: Outcome) -> None:
    assert faults(good) == []
    assert webhook_verified(good)
    assert good.swaps_in_arrival_order == JOBS


def test_a_job_in_another_state_is_named_with_its_reason(good: Outcome) -> None:
    error = JobError(code="worker_lost", message="Workers died.", retryable=True)
    found = faults(spoilt(good, 3, status=Status.FAILED, error=error))
    assert found == ["job 3 is failed, not succeeded: Workers died."]


def test_the_cancelled_job_must_not_have_succeeded_or_have_images(good: Outcome) -> None:
    assert faults(spoilt(good, CANCELLED, status=Status.SUCCEEDED)) == [f"job {CANCELLED} is succeeded, not cancelled"]
    assert "has images" in faults(spoilt(good, CANCELLED, images=good.ended[0].job.images))[0]


@pytest.mark.parametrize(
    ("cancelling", "words"),
    [
        (Cancelling(), "not at step 0"),
        (Cancelling(400, 400, "running"), "not at step 400"),
        (Cancelling(1, 400, "cancelled"), "was cancelled when"),
        (Cancelling(status="job_finished"), "not at step 0"),
    ],
)
def test_it_must_have_been_running_when_it_was_cancelled(good: Outcome, cancelling: Cancelling, words: str) -> None:
    (found,) = faults(replace(good, cancelling=cancelling))
    assert words in found


def test_a_wrong_seed_is_noticed(good: Outcome) -> None:
    image = good.ended[0].job.images[0].model_copy(update={"seed": 1})
    assert faults(spoilt(good, 0, images=[image]))[0].endswith("the seed that was asked for")


def test_a_receipt_that_does_not_fit_is_noticed(good: Outcome) -> None:
    receipt = receipt_of(good, 0)
    (adapter,) = receipt.adapters

    def found(**changes: object) -> str:
        return " ".join(faults(spoilt(good, 0, receipt=receipt.model_copy(update=changes))))

    assert "other adapters" in found(adapters=[])
    assert "other adapters" in found(adapters=[adapter.model_copy(update={"scale": 0.5})])
    assert "other adapter files" in found(adapters=[adapter.model_copy(update={"sha256": "00"})])
    assert "reached no layer" in found(adapters=[adapter.model_copy(update={"layers_applied": 0})])
    assert "other images" in found(images_sha256=["00"])
    assert "the receipt was changed" in found(recipe="another")
    assert "that of another job" in found(job="another")
    assert "not signed" in found(signature=None)
    assert faults(spoilt(good, 0, receipt=None)) == ["job 0: it has no receipt"]


def test_adapters_on_a_job_without_any_are_noticed(good: Outcome) -> None:
    without = next(one.planned.number for one in good.ended if not one.planned.adapters)
    found = faults(
        spoilt(
            good,
            without,
            receipt=receipt_of(good, without).model_copy(update={"adapters": receipt_of(good, 0).adapters}),
        )
    )
    assert any("other adapters" in fault for fault in found)


def test_a_webhook_that_is_not_right_is_noticed(good: Outcome) -> None:
    for calls in ([], [Received("evt_1", fault="the signature is not right")]):
        spoiled = replace(good, calls=calls)
        assert not webhook_verified(spoiled)
        (found,) = faults(spoiled)
        assert found.startswith(f"job {BY_WEBHOOK}: ")


def test_changing_adapters_as_often_as_in_arrival_order_is_a_fault(good: Outcome) -> None:
    assert order_faults(good) == []
    (found,) = order_faults(replace(good, swaps=JOBS))
    assert "in arrival order" in found
