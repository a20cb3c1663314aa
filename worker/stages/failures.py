"""What a library's failure becomes: a sentence for people, its own words for the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from shared.errors import GenerationFailed

log = logging.getLogger(__name__)


@contextmanager
def failures_told(is_ours: Callable[[BaseException], bool] = lambda error: False) -> Iterator[None]:
    """Within it, a library that fails raises ``GenerationFailed``. What ``is_ours`` knows passes through as it is."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        if is_ours(error):
            raise
        # A library's own words can name paths of this machine, so they go to the log alone.
        log.warning("the pipeline failed", exc_info=True)
        raise GenerationFailed(f"The pipeline failed on this job ({type(error).__name__}); try it again.") from error
