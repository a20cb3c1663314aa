"""Log lines of every process: time, level, and one short sentence on standard error."""

from __future__ import annotations

import logging

# Libraries that report every request, retry or task at INFO.
_CHATTY = ("botocore", "boto3", "celery", "httpcore2", "httpx2", "kombu", "s3transfer", "urllib3")


def configure_logging(level: int = logging.INFO) -> None:
    """Set up the root logger of this process."""
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)-7s %(message)s", datefmt="%H:%M:%S", force=True)
    logging.captureWarnings(True)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
