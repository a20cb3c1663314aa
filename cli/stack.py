"""A whole Hotslot on this machine: embedded Valkey, API, one worker per base model, notifier.

Valkey is started first and stopped last, because all others rely on it.
"""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from cli.environment import for_python, loopback_networks, with_decided
from cli.kept import KeptProgram, KeptServer
from cli.processes import Command, Say
from cli.supervise import Kept, Supervisor
from shared.errors import Misconfigured
from shared.secret_files import kept_secret
from shared.signature import new_secret

HOST = "127.0.0.1"
STOP_MARGIN_S = 15.0
"""How much longer than a job's own grace a process may take to end."""
API = "api"
NOTIFIER = "notifier"


@dataclass(frozen=True)
class StackPlan:
    """What to start.

    ``environment``: what the processes inherit. ``given``: names of the settings that the user has set there, which
    the stack must not decide. ``stop_grace_s``: how long a worker may go on with its job when it is stopped.
    """

    data_folder: Path
    port: int
    base_models: tuple[str, ...]
    environment: Mapping[str, str]
    given: frozenset[str]
    stop_grace_s: float
    most_deaths: int | None = None

    @property
    def url(self) -> str:
        """Where the API answers on this machine."""
        return f"http://{HOST}:{self.port}"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the processes that have a log."""
        return (API, *map(worker_name, self.base_models), NOTIFIER)

    @property
    def webhook_secret_file(self) -> Path | None:
        """Where the webhook secret is kept; None when the user has set one."""
        return None if "webhook_secret" in self.given else self.data_folder / "secrets" / "webhook-secret"


class Stack:
    """Starts and stops what the plan says; ``say`` takes every line of every process."""

    def __init__(self, plan: StackPlan, say: Say) -> None:
        self.plan = plan
        self._say = say
        self._server = KeptServer(plan.data_folder / "valkey") if "redis_url" not in plan.given else None
        self._programs = [KeptProgram(name, partial(self._command, name), say) for name in plan.names]
        stages: list[list[Kept]] = [[*self._programs]]
        if self._server:
            stages.insert(0, [self._server])
        self._supervisor = Supervisor(stages, say, plan.most_deaths)

    @property
    def failure(self) -> str | None:
        """Why the stack cannot go on, once that is so."""
        return self._supervisor.failure

    def start(self) -> None:
        """Start everything, without waiting until it takes jobs. Raises SetupError, with nothing left running."""
        check_installed()
        check_port(self.plan.port)
        self._decided = decide(self.plan)
        try:
            self._supervisor.start()
        except BaseException:
            self.stop(hurry=lambda: True)
            raise

    def stop(self, hurry: Callable[[], bool]) -> None:
        """End everything; workers finish or hand back their jobs unless ``hurry`` says to kill them."""
        self._supervisor.stop(self.plan.stop_grace_s + STOP_MARGIN_S, hurry)

    def _command(self, name: str) -> Command:
        decided = dict(self._decided)
        if self._server:
            decided["redis_url"] = self._server.url
        environment = for_python(with_decided(self.plan.environment, decided, self.plan.given))
        arguments = program_arguments(name, self.plan)
        return Command(name, (sys.executable, "-P", "-m", *arguments), environment)


def worker_name(base_model: str) -> str:
    """Name of the worker process of a base model."""
    return f"worker-{base_model}"


def program_arguments(name: str, plan: StackPlan) -> tuple[str, ...]:
    """Module and arguments of the process of this name."""
    match name:
        case "api":
            return ("api", "--host", HOST, "--port", str(plan.port))
        case "notifier":
            return ("worker", "--notify")
        case _:
            return ("worker", "--base-model", name.removeprefix("worker-"))


def decide(plan: StackPlan) -> dict[str, str]:
    """The settings that the stack decides, by name; makes the folders and secrets that they name."""
    folder = plan.data_folder
    secret_file = plan.webhook_secret_file
    adapters = folder / "adapters"
    try:
        adapters.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Misconfigured(f"The data folder {folder} cannot be made: {error.strerror}.") from error
    decided = {
        "data_folder": str(folder),
        "adapter_folder": str(adapters),
        "public_url": plan.url,
        "webhook_allowed_networks": loopback_networks(),
    }
    if "signing_key" not in plan.given:
        decided["signing_key"] = kept_secret(folder / "secrets" / "signing-key", lambda: secrets.token_urlsafe(32))
    if secret_file is not None:
        decided["webhook_secret"] = kept_secret(secret_file, new_secret)
    return decided


def check_installed() -> None:
    """Refuse when what a worker needs is not installed; it would only die again and again."""
    missing = [name for name in ("torch", "diffusers", "peft", "transformers") if find_spec(name) is None]
    if missing:
        raise Misconfigured(f"{', '.join(missing)} not installed: run pip install 'hotslot[worker,local]'.")


def check_port(port: int) -> None:
    """Refuse a port that another program listens on."""
    with socket.socket() as probe:
        # As the API itself does, so that connections that are just ending do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise Misconfigured(
                f"Port {port} cannot be used ({error.strerror}): "
                "stop the program that has it, or choose another with --port."
            ) from error


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
