"""What must be true after the demo; every check returns the faults that it finds, one sentence each. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from cli.demo.outcome import Cancelling, Ended, Outcome
from cli.demo.receiver import webhook_fault
from shared.errors import ReceiptRefused
from shared.job import Status
from shared.receipt import check_signature
from shared.view import JobView


def faults(outcome: Outcome) -> list[str]:
    """Everything that is not as it should be, the order of the jobs and the images' content aside."""
    found = [fault for one in outcome.ended for fault in job_faults(one, outcome.receipt_keys)]
    found += [f"job {one.planned.number}: {fault}" for one in outcome.ended if (fault := call_fault(one, outcome))]
    cancelled = [one for one in outcome.ended if one.planned.cancel]
    found += [fault for one in cancelled for fault in cancel_faults(one.job, outcome.cancelling)]
    return found


def order_faults(outcome: Outcome) -> list[str]:
    """Whether the order of the jobs saved swaps. Only where swaps are said to be worth it: otherwise none are saved."""
    if outcome.swaps < outcome.swaps_in_arrival_order:
        return []
    return [
        f"the worker changed adapters {outcome.swaps} times; "
        f"in arrival order it would have been {outcome.swaps_in_arrival_order}"
    ]


def webhook_verified(outcome: Outcome) -> bool | None:
    """Whether the webhook came, signed rightly, and the job was readable as ended during the call; None: not asked."""
    asked = [one for one in outcome.ended if one.planned.webhook_url]
    return all(call_fault(one, outcome) is None for one in asked) if asked else None


def call_fault(one: Ended, outcome: Outcome) -> str | None:
    """What is wrong with the webhook that this job asked for, if it did."""
    if not one.planned.webhook_url:
        return None
    return webhook_fault(outcome.calls, one.job.id, f"job.{one.planned.ends.value}")


def job_faults(one: Ended, receipt_keys: Mapping[str, str]) -> list[str]:
    """Whether the job ended as planned, with images and a receipt that fit what was asked for."""
    job, planned = one.job, one.planned
    if job.status is not planned.ends:
        why = f": {job.error.message}" if job.error else ""
        return [f"job {planned.number} is {job.status}, not {planned.ends}{why}"]
    if job.status is not Status.SUCCEEDED:
        return [f"job {planned.number} is {job.status} but has images"] if job.images or one.image else []
    found = []
    if [image.seed for image in job.images] != [planned.seed]:
        found.append("its image does not have the seed that was asked for")
    if one.image is None:
        found.append("its image was not downloaded")
    return [f"job {planned.number}: {fault}" for fault in found + receipt_faults(job, asked_of(one), receipt_keys)]


def asked_of(one: Ended) -> list[tuple[str, float]]:
    """Sources and strengths as they were asked for."""
    return [(adapter.source, adapter.scale) for adapter in one.planned.adapters]


def receipt_faults(job: JobView, asked: list[tuple[str, float]], keys: Mapping[str, str]) -> list[str]:
    """Whether the receipt is genuine and names exactly the adapters and the images of the job."""
    receipt = job.receipt
    if receipt is None:
        return ["it has no receipt"]
    found = []
    try:
        check_signature(receipt.model_dump(mode="json"), keys)
    except ReceiptRefused as error:
        found.append(error.message)
    if receipt.job != job.id:
        found.append("its receipt is that of another job")
    if [(adapter.source, adapter.scale) for adapter in receipt.adapters] != asked:
        found.append("its receipt names other adapters than were asked for")
    if [adapter.sha256 for adapter in receipt.adapters] != [adapter.sha256 for adapter in job.adapters]:
        found.append("its receipt names other adapter files than the job was admitted with")
    if any(adapter.layers_applied == 0 for adapter in receipt.adapters):
        found.append("its receipt names an adapter that reached no layer")
    if receipt.images_sha256 != [image.sha256 for image in job.images]:
        found.append("its receipt names other images than the job has")
    return found


def cancel_faults(job: JobView, cancelling: Cancelling) -> list[str]:
    """Whether the job was really cancelled while it ran."""
    if not 0 < cancelling.step < cancelling.steps:
        return [f"job {job.id} was to be cancelled while it ran, but not at step {cancelling.step}"]
    if cancelling.status != Status.RUNNING:
        return [f"job {job.id} was {cancelling.status or 'nowhere'} when it was cancelled, not running"]
    return []
