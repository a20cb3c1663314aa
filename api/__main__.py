"""``python -m api``: serve the HTTP API until told to stop."""

from __future__ import annotations

import argparse
import logging
import sys
from contextlib import suppress

from api.main import create_app
from api.serving import Server
from shared.errors import QueueUnavailable, SetupError
from shared.settings import settings

log = logging.getLogger("api")


def main() -> int:
    """Serve; the exit status is 2 when the service is set up in a way that cannot work."""
    parser = argparse.ArgumentParser(prog="python -m api", description="Serve Hotslot's HTTP API.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    try:
        app = create_app(settings())
        app.state.services.check_redis()
    except QueueUnavailable as error:
        log.warning("%s Until it does, jobs are answered with 503.", error.message)
    except SetupError as error:
        sys.stderr.write(f"{error.message}\n")
        return 2
    with suppress(KeyboardInterrupt):
        Server(app, options.host, options.port).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
