"""Looking into adapter files: for the inspection itself, before registration, and before a job is taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from shared.adapters.base import BaseLayers
from shared.adapters.header import Header, read_header
from shared.adapters.inspection import Inspection, inspect_header, refused, unreadable
from shared.adapters.plan import AdapterPlan, plan_adapter
from shared.adapters.resolve import base_model_of
from shared.adapters.source import Opened, OpenSource
from shared.catalogue import Catalogue
from shared.errors import AdapterError, AdapterRankTooLarge, InvalidRequest
from shared.job import JobSpec, PinnedAdapter
from shared.registry import RegisteredAdapter
from shared.request import JobRequest
from shared.sources.base_model import BUILTIN
from shared.sources.source import Registered, parse


@dataclass(frozen=True)
class Inspector:
    """Everything that inspection needs. ``bases``: layers of the served base models, as far as they are known."""

    catalogue: Catalogue
    bases: Mapping[str, BaseLayers]
    open_source: OpenSource

    def inspect(self, source: str, base_model: str | None) -> Inspection:
        """The facts and the verdict, for this base model or for the one that the file is for.

        Raises ``UnknownBaseModel``, ``UnknownAdapter`` and what else opening raises; never because of what the file
        holds.
        """
        if base_model is not None:
            self.catalogue.get(base_model)
        opened = self.open_source(source, field="source")
        try:
            header = read_header(opened.read_range, opened.size_bytes)
        except AdapterError as error:
            return unreadable(error, opened, base_model)
        name = base_model or base_model_of(header, self.catalogue, self.bases)
        return self._judged(header, opened, name)

    def with_base_model(self, request: JobRequest) -> JobRequest:
        """The request with the base model that its first file is for, where it names none and has files alone.

        Raises what opening and reading the file raise, and ``InvalidRequest`` where the file does not tell.
        """
        sources = [asked.source for asked in request.adapters]
        if request.base_model is not None or not sources or any(map(_is_name, sources)):
            # A registered name beside a file tells more exactly.
            return request
        field = "adapters[0].source"
        opened = self.open_source(sources[0], field=field)
        with _named(field):
            header = read_header(opened.read_range, opened.size_bytes)
        found = base_model_of(header, self.catalogue, self.bases)
        if found is None:
            served = ", ".join(sorted(self.catalogue.base_models))
            raise InvalidRequest(
                f"base_model: name one, because {field} does not tell which it is for; served here: {served}.",
                field="base_model",
            )
        return request.model_copy(update={"base_model": found})

    def check_job(self, spec: JobSpec, registered: Mapping[str, RegisteredAdapter]) -> None:
        """Refuse a job whose files cannot be served: an ``AdapterError`` that names the field.

        ``registered``: the names that the job gives. Where the base model's layers are not known here, files are left
        to the worker, and names count with their largest rank.
        """
        base, top_rank = self.bases.get(spec.base_model), self.catalogue.get(spec.base_model).slot.top_rank
        names, files = dict[int, PinnedAdapter](), dict[int, PinnedAdapter]()
        for place, adapter in enumerate(spec.adapters):
            (names if _is_name(adapter.source) else files)[place] = adapter
        plans = [] if base is None else [self._planned(adapter, place, base) for place, adapter in files.items()]
        ranks = {place: registered[adapter.source].rank for place, adapter in names.items()}
        if sum(ranks.values()) + sum(plan.rank for plan in plans) <= top_rank:
            return
        # Only now does it count which layers the names change; what comes with a model is no file that is seen here.
        for place, adapter in names.items():
            if base is not None and not adapter.location.startswith(BUILTIN):
                plans.append(self._planned(adapter, place, base))
                del ranks[place]
        check_rank_sums(plans, sum(ranks.values()), top_rank)

    def _planned(self, adapter: PinnedAdapter, place: int, base: BaseLayers) -> AdapterPlan:
        field = f"adapters[{place}].source"
        opened = self.open_source(adapter.location, field=field)
        with _named(field):
            return plan_adapter(read_header(opened.read_range, opened.size_bytes), base)

    def _judged(self, header: Header, opened: Opened, base_model: str | None) -> Inspection:
        base = self.bases.get(base_model or "")
        found = inspect_header(header, opened, base, base_model)
        if found.verdict is None and (error := self._refused_by_all(header)) is not None:
            return found.model_copy(update={"verdict": refused(error, None)})
        return found

    def _refused_by_all(self, header: Header) -> AdapterError | None:
        """Why no served base model takes the file, where all of them are known."""
        if set(self.bases) != set(self.catalogue.base_models):
            return None
        last = None
        for base in self.bases.values():
            try:
                plan_adapter(header, base)
            except AdapterError as error:
                last = error
            else:
                return None
        return last


def check_rank_sums(plans: Sequence[AdapterPlan], everywhere: int, top_rank: int) -> None:
    """Raise ``AdapterRankTooLarge`` if the ranks of one layer sum to more than the slot takes.

    ``everywhere``: ranks of adapters whose layers are not known, summed; they may be in any layer.
    """
    sums = Counter({"their largest layers": everywhere})
    for plan in plans:
        for layer in plan.layers:
            sums.setdefault(layer.layer, everywhere)
            sums[layer.layer] += layer.rank
    for name, rank in sums.items():
        if rank > top_rank:
            raise AdapterRankTooLarge(
                f"adapters: together they have rank {rank} in {name}; the largest sum served here is {top_rank}.",
                field="adapters",
            )


def _is_name(source: str) -> bool:
    """Whether it is a registered name, whose file was looked into when it got its name."""
    return isinstance(parse(source), Registered)


@contextmanager
def _named(field: str) -> Iterator[None]:
    """Let every refusal of a file name the field that asked for it."""
    try:
        yield
    except AdapterError as error:
        raise type(error)(f"{field}: {error.message}", field=field, reason=error.reason) from error
