"""Every error that Hotslot names, in one tree.

    HotslotError
    ├── RequestError            the caller must change the request; nothing was stored
    │   ├── InvalidRequest      422 invalid_request
    │   ├── UnknownBaseModel    422 base_model_unknown
    │   ├── UnknownAdapter      422 adapter_unknown
    │   ├── AdapterNotFound     404 adapter_not_found
    │   ├── AdapterReserved     409 adapter_reserved
    │   ├── AdapterAmbiguous    422 adapter_ambiguous
    │   ├── AddressRefused      422 address_refused
    │   ├── JobNotFound         404 job_not_found
    │   ├── JobGone             410 job_gone
    │   ├── JobFinished         409 job_finished
    │   ├── ImageNotFound       404 image_not_found
    │   ├── LinkRefused         403 link_refused
    │   ├── ReceiptRefused      422 receipt_refused
    │   └── KeyReused           409 idempotency_key_reused
    ├── AdapterError            this adapter cannot be served; fails its own job and nothing else
    │   ├── AdapterUnreadable   422 adapter_unreadable
    │   ├── AdapterUnsupported  422 adapter_unsupported
    │   ├── AdapterMismatch     422 adapter_mismatch
    │   ├── AdapterRankTooLarge 422 adapter_rank_too_large
    │   ├── AdapterNotFinite    422 adapter_not_finite
    │   ├── AdapterTooLarge     422 adapter_too_large
    │   ├── AdapterForbidden    422 adapter_forbidden
    │   ├── AdapterUnpinnable   422 adapter_unpinnable
    │   └── AdapterChanged      409 adapter_changed
    ├── Unavailable             the same request may succeed later
    │   ├── QueueUnavailable    503 queue_unavailable
    │   ├── StoreUnavailable    503 store_unavailable
    │   ├── WebhooksDisabled    503 webhooks_disabled
    │   ├── AdapterNotReady     503 adapter_not_ready
    │   ├── SourceUnavailable   503 adapter_source_unavailable
    │   ├── CacheFull           503 adapter_cache_full
    │   └── TooManyWaiters      503 too_many_waiters
    ├── WorkerError             the worker's fault, never the job's
    │   ├── WorkerLost          500 worker_lost
    │   ├── SlotCorrupt         500 slot_corrupt
    │   └── GenerationFailed    500 generation_failed
    └── SetupError              refused at start: the operator must change something
        ├── CatalogueInvalid    500 catalogue_invalid
        ├── RecipeRefused       500 recipe_refused
        ├── ServerRefused       500 server_refused
        ├── Misconfigured       500 misconfigured
        └── WeightsAltered      500 weights_altered

``code`` is stable and machine-readable, ``status`` is the HTTP status, ``retryable`` says whether the
same request can succeed later, and the message is one sentence that says what to do. No message holds a secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class HotslotError(Exception):
    """Root of the tree. ``field`` names the request field at fault, where there is one."""

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field


class RequestError(HotslotError):
    """The caller must change the request."""

    code = "invalid_request"
    status = 422


class InvalidRequest(RequestError):
    """A field is missing, unknown, or out of its range; the message names it and what is allowed.

    ``others``: what else is wrong with the same request.
    """

    others: Sequence[InvalidRequest] = ()


class UnknownBaseModel(RequestError):
    """The base model is not in the catalogue."""

    code = "base_model_unknown"


class UnknownAdapter(RequestError):
    """The adapter is not registered, or its file is not there."""

    code = "adapter_unknown"


class AdapterNotFound(RequestError):
    """No adapter of this name is registered."""

    code = "adapter_not_found"
    status = 404


class AdapterReserved(RequestError):
    """The name belongs to an adapter that comes with a base model."""

    code = "adapter_reserved"
    status = 409


class AdapterAmbiguous(RequestError):
    """The repository has several safetensors files, and the request names none; the message lists them."""

    code = "adapter_ambiguous"


class AddressRefused(RequestError):
    """A URL leads to an address that the operator does not allow."""

    code = "address_refused"


class JobNotFound(RequestError):
    """No job with this id was ever seen."""

    code = "job_not_found"
    status = 404


class WorkerNotFound(RequestError):
    """No living worker has this name."""

    code = "worker_not_found"
    status = 404


class JobGone(RequestError):
    """The job's record is past its retention."""

    code = "job_gone"
    status = 410


class JobFinished(RequestError):
    """The job has already ended, so it cannot be cancelled."""

    code = "job_finished"
    status = 409


class ImageNotFound(RequestError):
    """The job has no image of this number (yet)."""

    code = "image_not_found"
    status = 404


class LinkRefused(RequestError):
    """A signed link is altered or has expired."""

    code = "link_refused"
    status = 403


class ReceiptRefused(RequestError):
    """A receipt is not what a worker of this service signed, or cannot be checked."""

    code = "receipt_refused"


class KeyReused(RequestError):
    """An Idempotency-Key came again with another body."""

    code = "idempotency_key_reused"
    status = 409


class AdapterError(HotslotError):
    """This adapter cannot be served. ``reason``: stable like the code, and narrower, where there are several."""

    code = "adapter_error"
    status = 422

    def __init__(self, message: str, *, field: str | None = None, reason: str | None = None) -> None:
        super().__init__(message, field=field)
        self.reason = reason or self.code.removeprefix("adapter_")


class AdapterUnreadable(AdapterError):
    """The file is not whole, or not safetensors at all."""

    code = "adapter_unreadable"


class AdapterUnsupported(AdapterError):
    """The file is whole, but of a dialect or kind that is not served."""

    code = "adapter_unsupported"


class AdapterMismatch(AdapterError):
    """The adapter's layers or shapes are not those of the base model."""

    code = "adapter_mismatch"


class AdapterRankTooLarge(AdapterError):
    """The rank (summed over the job's adapters) exceeds the slot's largest tier."""

    code = "adapter_rank_too_large"


class AdapterNotFinite(AdapterError):
    """The adapter holds NaN or infinite weights."""

    code = "adapter_not_finite"


class AdapterTooLarge(AdapterError):
    """The file has more bytes than the operator allows."""

    code = "adapter_too_large"


class AdapterForbidden(AdapterError):
    """The source does not let this service read the file, whatever is cached of it."""

    code = "adapter_forbidden"


class AdapterUnpinnable(AdapterError):
    """The source tells neither size nor version, so a job could not be held to the bytes it was admitted with."""

    code = "adapter_unpinnable"


class AdapterChanged(AdapterError):
    """The file's bytes are not those that the job was admitted with."""

    code = "adapter_changed"
    status = 409


class Unavailable(HotslotError):
    """The same request may succeed later."""

    code = "unavailable"
    status = 503
    retryable = True


class QueueUnavailable(Unavailable):
    """The Redis or Valkey server does not answer."""

    code = "queue_unavailable"


class StoreUnavailable(Unavailable):
    """The object store does not answer or refuses the write."""

    code = "store_unavailable"


class WebhooksDisabled(Unavailable):
    """A webhook was asked for, but no signing secret is configured."""

    code = "webhooks_disabled"
    retryable = False


class AdapterNotReady(Unavailable):
    """The adapter is known, but no worker has prepared it yet, or finding out its version takes too long."""

    code = "adapter_not_ready"


class SourceUnavailable(Unavailable):
    """The adapter's source does not answer, or not to the end."""

    code = "adapter_source_unavailable"


class CacheFull(Unavailable):
    """The disk of the worker that took the job has no room for the adapter."""

    code = "adapter_cache_full"


class TooManyWaiters(Unavailable):
    """This API process holds as many waiting callers as it can; ask without waiting, or later."""

    code = "too_many_waiters"


class WorkerError(HotslotError):
    """The worker's fault, never the job's."""

    code = "worker_error"
    retryable = True


class WorkerLost(WorkerError):
    """Workers died with this job as often as the attempt limit allows."""

    code = "worker_lost"


class SlotCorrupt(WorkerError):
    """What was read back from the slot is not what was written."""

    code = "slot_corrupt"


class GenerationFailed(WorkerError):
    """The pipeline raised, or made an image that is not finite."""

    code = "generation_failed"


class SetupError(HotslotError):
    """Refused at start. A process that refuses ends with ``exit_status``: starting it again does not help."""

    exit_status: ClassVar[int] = 2

    code = "setup_error"


class CatalogueInvalid(SetupError):
    """The catalogue cannot be read or holds an impossible entry."""

    code = "catalogue_invalid"


class RecipeRefused(SetupError):
    """This machine cannot run the base model as its recipe says; the message says why, and what would fit."""

    code = "recipe_refused"


class ServerRefused(SetupError):
    """The Redis or Valkey server is set up in a way that loses jobs."""

    code = "server_refused"


class Misconfigured(SetupError):
    """A setting is missing or contradicts another."""

    code = "misconfigured"


class WeightsAltered(SetupError):
    """A bundled weight file is missing, or is not the one that was released."""

    code = "weights_altered"
