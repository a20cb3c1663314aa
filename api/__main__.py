"""``python -m api``: serve the HTTP API until told to stop."""

from __future__ import annotations

import argparse
import logging
import sys
from contextlib import suppress

from api.main import create_app
from api.serving import Server
from shared.errors import QueueUnavailable, SetupError
from shared.logs import configure_logging
from shared.settings import settings, unknown_settings

log = logging.getLogger("api")


def main() -> int:
    """Serve; the exit status is 2 when the service is set up in a way that cannot work."""
    parser = argparse.ArgumentParser(prog="python -m api", description="Serve Hotslot's HTTP API.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    configure_logging()
    for sentence in unknown_settings().values():
        log.warning("%s", sentence)
    try:
        app = create_app(settings())
        app.state.services.check_redis()
    except QueueUnavailable as error:
        log.warning("%s Until it does, jobs are answered with 503.", error.message)
    except SetupError as error:
        log.error("%s", error.message)
        return error.exit_status
    with suppress(KeyboardInterrupt):
        Server(app, options.host, options.port).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
