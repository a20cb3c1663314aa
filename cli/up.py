"""``hotslot up``: the whole service in one terminal."""

from __future__ import annotations

import json
import os
import shlex
import time
from pathlib import Path

from rich.console import Console

from cli.client import Client
from cli.interrupts import Interrupts
from cli.log_lines import TerminalLog
from cli.readiness import await_ready
from cli.stack import Stack, StackPlan
from cli.supervise import OWN_NAME
from shared.catalogue import Catalogue, read_catalogue
from shared.errors import Misconfigured
from shared.settings import Settings, unknown_settings

IDLE_S = 0.1


def plan_up(settings: Settings, port: int, data: Path | None, catalogue: Catalogue) -> StackPlan:
    """What ``up`` starts with the user's settings."""
    unknown = unknown_settings()
    return StackPlan(
        data_folder=(data or settings.data_folder).absolute(),
        port=port,
        base_models=tuple(sorted(catalogue.base_models)),
        # Unknown ones are told once, not by every process again.
        environment={name: value for name, value in os.environ.items() if name not in unknown},
        # Chosen on the command line or by default, but never to be read from elsewhere.
        given=frozenset(settings.model_fields_set) - {"data_folder"},
        stop_grace_s=settings.stop_grace_s,
    )


def up(settings: Settings, port: int, data: Path | None, console: Console) -> int:
    """Run until asked to stop; returns the exit status. Raises SetupError."""
    catalogue = read_catalogue(settings.catalogue)
    plan = plan_up(settings, port, data, catalogue)
    say = TerminalLog(console, plan.names, OWN_NAME)
    for sentence in unknown_settings().values():
        say(OWN_NAME, sentence)
    stack = Stack(plan, say)
    with Interrupts() as interrupts:
        stack.start()
        try:
            say(OWN_NAME, f"started in {plan.data_folder}; loading {', '.join(plan.base_models)}")
            _serve(stack, say, interrupts, catalogue)
        finally:
            say(OWN_NAME, "stopping; running jobs are finished or handed back (Ctrl-C again: at once)")
            stack.stop(hurry=lambda: interrupts.asked_twice)
        if stack.failure:
            raise Misconfigured(stack.failure)
        say(OWN_NAME, "stopped")
    return 0


def _serve(stack: Stack, say: TerminalLog, interrupts: Interrupts, catalogue: Catalogue) -> None:
    def may_go_on() -> bool:
        return not interrupts.asked and stack.failure is None

    with Client(stack.plan.url) as client:
        if await_ready(client, stack.plan.base_models, may_go_on):
            for line in welcome(stack.plan, catalogue):
                say(OWN_NAME, line)
    while may_go_on():
        time.sleep(IDLE_S)


def welcome(plan: StackPlan, catalogue: Catalogue) -> list[str]:
    """What a user needs to know once jobs are taken."""
    body, adapter = sample(catalogue)
    curl = f"curl -s {plan.url}/v1/jobs -H 'content-type: application/json' -d {shlex.quote(json.dumps(body))}"
    option = f" --adapter {adapter}" if adapter else f" --base-model {body['base_model']}"
    address = "" if plan.port == 8000 else f" --url {plan.url}"
    lines = [
        f"ready: {plan.url} serves {', '.join(plan.base_models)}",
        f"try: {curl}",
        f"or:  hotslot submit {shlex.quote(str(body['prompt']))}{option} -o out.png{address}",
    ]
    if "adapter_folder" not in plan.given:
        lines.append(f"adapters named file:PATH are read below {plan.data_folder / 'adapters'}")
    if plan.webhook_secret_file:
        lines.append(f"webhooks are signed with the secret in {plan.webhook_secret_file}")
    if "webhook_allowed_networks" not in plan.given:
        lines.append("webhooks may reach this machine itself (127.0.0.0/8, ::1), which a public service must not allow")
    return lines


def sample(catalogue: Catalogue) -> tuple[dict[str, object], str | None]:
    """A request that this catalogue serves, and the adapter in it, if there is one to name."""
    entry = next(iter(catalogue.base_models.values()))
    prompt = entry.example_prompt
    if entry.builtin_adapters:
        adapter = entry.builtin_adapters[0]
        return {"prompt": prompt, "adapters": [{"source": adapter}]}, adapter
    return {"prompt": prompt, "base_model": entry.name}, None
