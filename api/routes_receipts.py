"""What it takes to check a receipt without asking the service again."""

from __future__ import annotations

from fastapi import APIRouter

from api import examples
from api.deps import ServicesHere
from api.views import ReceiptKeysView, ReceiptKeyView

router = APIRouter(tags=["status"])


@router.get("/v1/receipt-keys", summary="List receipt keys", responses=examples.receipt_keys() | examples.problems(503))
def list_receipt_keys(here: ServicesHere) -> ReceiptKeysView:
    """The public keys of all workers that have signed receipts; `hotslot verify` takes them from here."""
    known = sorted(here.receipt_keys.all().items())
    return ReceiptKeysView(keys=[ReceiptKeyView(id=key_id, public_key=public) for key_id, public in known])
