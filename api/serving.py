"""Uvicorn, with an end to waiting callers before it stops."""

from __future__ import annotations

import socket

import uvicorn
from fastapi import FastAPI

STOP_S = 10
"""How long answers in progress may take after the process was told to stop."""


class Server(uvicorn.Server):
    """A server for one app of ours. Uvicorn waits for open answers, and a waiting caller's would stay open."""

    def __init__(self, app: FastAPI, host: str, port: int) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                host=host,
                port=port,
                access_log=False,
                lifespan="on",
                log_config=None,
                server_header=False,
                timeout_graceful_shutdown=STOP_S,
                ws="none",
            )
        )
        self._waiters = app.state.services.waiters

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the waiting, then everything else."""
        self._waiters.close()
        await super().shutdown(sockets)
