"""``python -m worker --base-model NAME`` draws images; ``python -m worker --notify`` delivers webhooks.

``python -m worker --healthy`` tells whether one of these on this host can do so now, ``python -m worker --plan`` what
each base model of the catalogue would run with on this machine.
"""

from __future__ import annotations

import argparse
import logging
import sys

from shared.errors import SetupError, UnknownBaseModel
from shared.logs import configure_logging
from shared.settings import settings, unknown_settings

log = logging.getLogger("worker")


def main(arguments: list[str] | None = None) -> int:
    """Run one worker until it is told to stop; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m worker", description=__doc__)
    role = parser.add_mutually_exclusive_group(required=True)
    role.add_argument("--base-model", metavar="NAME", help="serve this base model of the catalogue")
    role.add_argument("--notify", action="store_true", help="deliver webhooks")
    role.add_argument("--healthy", action="store_true", help="exit 0 if a process of this host can do its work")
    role.add_argument("--plan", action="store_true", help="show each base model's recipe on this machine, and why")
    chosen = parser.parse_args(arguments)
    configure_logging()
    for sentence in unknown_settings().values():
        log.warning("%s", sentence)
    try:
        if chosen.healthy:
            from worker.healthy import check_health

            return check_health(settings())
        if chosen.plan:
            from worker.show_plans import show_plans

            return show_plans(settings())
        if chosen.notify:
            from worker.run_notifier import run_notifier

            return run_notifier(settings())
        from worker.run_worker import run_worker

        return run_worker(settings(), chosen.base_model)
    except (SetupError, UnknownBaseModel) as error:
        log.error("%s", error.message)
        return SetupError.exit_status


if __name__ == "__main__":
    sys.exit(main())
