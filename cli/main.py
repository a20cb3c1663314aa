"""The command ``hotslot``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli.adapter_words import read_adapter
from cli.client import Client
from shared.errors import HotslotError, InvalidRequest, SetupError
from shared.request import ImageFormat, Priority
from shared.settings import settings

app = typer.Typer(
    name="hotslot",
    help="Serve many LoRA adapters on few resident diffusion base models.",
    epilog="Start with: hotslot up. Then: hotslot submit 'a red circle on a blue background' -a night -o out.png",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Url = Annotated[
    str | None,
    typer.Option("--url", help="Where Hotslot is. Default: HOTSLOT_PUBLIC_URL, else http://127.0.0.1:8000."),
]


@app.command("up")
def up_command(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the API on this machine.")] = 8000,
    data: Annotated[
        Path | None, typer.Option(help="Data folder: jobs, images, secrets, adapters.", file_okay=False)
    ] = None,
) -> None:
    """Start everything on this machine, in this terminal, until Ctrl-C."""
    from cli.up import up

    raise typer.Exit(up(settings(), port, data, Console()))


@app.command("demo")
def demo_command(
    out: Annotated[
        Path, typer.Option(help="Folder for images, contact sheet, report and logs.", file_okay=False)
    ] = Path("demo-out"),
    url: Annotated[str | None, typer.Option(help="Use the Hotslot that runs there instead of one of its own.")] = None,
    webhook_host: Annotated[
        str | None,
        typer.Option(
            help="With --url: name by which Hotslot reaches this machine; from Docker, host.docker.internal. "
            "Webhooks are checked with HOTSLOT_WEBHOOK_SECRET or HOTSLOT_WEBHOOK_SECRET_FILE."
        ),
    ] = None,
) -> None:
    """Start a stack of its own, draw 24 images with several adapters, check every one, and stop it."""
    if url:
        from cli.demo.visit import visit

        raise typer.Exit(visit(url, settings(), webhook_host, out, Console()))
    if webhook_host:
        raise InvalidRequest("--webhook-host goes with --url: a stack of the demo's own reaches it anyway.")
    from cli.demo.run import demo

    raise typer.Exit(demo(out, Console()))


@app.command("submit")
def submit_command(
    prompt: Annotated[str, typer.Argument(help="What to draw.", show_default=False)],
    adapter: Annotated[
        list[str] | None,
        typer.Option("--adapter", "-a", metavar="NAME[:SCALE]", help="Adapter and strength; may come several times."),
    ] = None,
    base_model: Annotated[str | None, typer.Option(help="Needed only when no adapter names it.")] = None,
    width: Annotated[int | None, typer.Option(help="Pixels.")] = None,
    height: Annotated[int | None, typer.Option(help="Pixels.")] = None,
    steps: Annotated[int | None, typer.Option(help="Denoising steps.")] = None,
    guidance_scale: Annotated[float | None, typer.Option()] = None,
    seed: Annotated[int | None, typer.Option(help="Drawn at random if not given.")] = None,
    num_images: Annotated[int, typer.Option("--num-images", "-n", help="Image i is drawn with seed + i.")] = 1,
    format: Annotated[
        ImageFormat | None, typer.Option(help="png if neither this nor the ending of the file says another.")
    ] = None,
    priority: Annotated[Priority, typer.Option()] = "normal",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the job has ended.")] = False,
    out: Annotated[
        str | None, typer.Option("-o", metavar="FILE_OR_FOLDER", help="Wait, download the images and check them.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the whole job as JSON instead of its id.")] = False,
    url: Url = None,
) -> None:
    """Submit one job; prints its id."""
    from cli.submit import Delivery, Wish, submit

    wish = Wish(
        prompt=prompt,
        adapters=[read_adapter(word) for word in adapter or ()],
        base_model=base_model,
        width=width,
        height=height,
        steps=steps,
        guidance_scale=guidance_scale,
        seed=seed,
        num_images=num_images,
        format=format,
        priority=priority,
    )
    with Client(url or settings().public_url) as client:
        raise typer.Exit(submit(client, wish, Delivery(wait=wait, out=out, as_json=json), Console(stderr=True)))


@app.command("watch")
def watch_command(
    job_id: Annotated[str, typer.Argument(metavar="ID", help="The job's id.", show_default=False)],
    out: Annotated[
        str | None, typer.Option("-o", metavar="FILE_OR_FOLDER", help="Download the images and check them.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the whole job as JSON at the end.")] = False,
    url: Url = None,
) -> None:
    """Follow a job until it has ended."""
    from cli.submit import Delivery, watch

    with Client(url or settings().public_url) as client:
        raise typer.Exit(watch(client, job_id, Delivery(wait=True, out=out, as_json=json), Console(stderr=True)))


@app.command("queues")
def queues_command(url: Url = None) -> None:
    """Show what waits, and the workers."""
    from cli.queues import queues

    with Client(url or settings().public_url) as client:
        queues(client, Console())


@app.command("secrets")
def secrets_command(
    folder: Annotated[Path, typer.Argument(help="Where the files are or shall be.", file_okay=False)],
) -> None:
    """Draw the secrets of a deployment into files; those that are there stay as they are."""
    from cli.deployment_secrets import draw_secrets

    Console().print(f"{folder}: {', '.join(draw_secrets(folder))}", highlight=False, markup=False, soft_wrap=True)


@app.command("verify")
def verify_command(
    receipt: Annotated[Path, typer.Argument(help="JSON file: a receipt, or a job.", show_default=False)],
    image: Annotated[Path, typer.Argument(help="The image file.", show_default=False)],
    adapters: Annotated[list[Path] | None, typer.Argument(help="Adapter files.", show_default=False)] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Public key in base64 or a file of them; default: ask the API.")
    ] = None,
    url: Url = None,
) -> None:
    """Check that a receipt is genuine, and that an image was made with its adapters."""
    from cli.verify import keys_of, verify

    if key is not None:
        known = keys_of(key)
    else:
        with Client(url or settings().public_url) as client:
            known = client.receipt_keys().by_id
    raise typer.Exit(verify(receipt, image, adapters or [], known, Console()))


def main() -> None:
    """Run the command; an expected error is one sentence on standard error."""
    try:
        app()
    except HotslotError as error:
        Console(stderr=True).print(
            f"hotslot: {error.message}", style="red", highlight=False, markup=False, soft_wrap=True
        )
        sys.exit(2 if isinstance(error, SetupError) else 1)


if __name__ == "__main__":
    main()
