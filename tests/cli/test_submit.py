from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cli import main as main_module
from cli.adapter_words import TypedAdapter
from cli.stack import free_port
from cli.submit import Wish, body_of
from shared.job import ImageRecord, JobError, Receipt, Result, Status
from shared.request import JobRequest
from shared.settings import settings
from tests.cli.api_server import JOB_ID, ApiServer, Asked, Reply, job_reply, problem
from tests.cli.demo.outcomes import sha256_of_name

Hotslot = Callable[..., int]
END = b'id: 1-0\nevent: progress\ndata: {"step": 1, "steps": 8}\n\nid: 2-0\nevent: succeeded\ndata: {}\n\n'


@pytest.fixture
def hotslot(monkeypatch: pytest.MonkeyPatch) -> Hotslot:
    """The command in this process; returns its exit status."""

    def run(*arguments: str) -> int:
        monkeypatch.setattr("sys.argv", ["hotslot", *arguments])
        with pytest.raises(SystemExit) as ended:
            main_module.main()
        return int(ended.value.code or 0)

    return run


def finished() -> Result:
    image = ImageRecord(
        key="k", sha256=sha256_of_name("image"), width=128, height=128, content_type="image/png", seed=7
    )
    receipt = Receipt(
        adapters=[],
        base_model="tiny-flux",
        base_revision="1",
        recipe="eager",
        fingerprint="f",
        library_versions={},
        worker="w",
        attempt=1,
        images_sha256=[image.sha256],
    )
    return Result(images=[image], receipt=receipt, timings_ms={"denoise": 1500.0})


def served(api: ApiServer, status: Status = Status.SUCCEEDED, image: bytes = b"image", **changes: object) -> None:
    """An API whose only job ends at once."""

    def answer(asked: Asked) -> Reply:
        if asked.path.endswith("/events"):
            return Reply(END, content_type="text/event-stream")
        if "/images/" in asked.path:
            return Reply(image, content_type="image/png")
        ended = asked.method == "GET"
        return job_reply(api.url, status if ended else Status.QUEUED, **(changes if ended else {}))

    api.answer = answer


def test_what_was_not_typed_is_left_to_the_service() -> None:
    body = body_of(Wish(prompt="a fox", adapters=[TypedAdapter("night", 0.5)], steps=4), "jpeg")
    assert JobRequest.model_validate(body).model_dump(exclude_unset=True) == {
        "prompt": "a fox",
        "adapters": [{"source": "night", "scale": 0.5}],
        "steps": 4,
        "num_images": 1,
        "format": "jpeg",
        "priority": "normal",
    }


def test_without_waiting_only_the_id_is_printed(
    api: ApiServer, hotslot: Hotslot, capsys: pytest.CaptureFixture[str]
) -> None:
    served(api)
    assert hotslot("submit", "a fox", "-a", "night:0.5", "--guidance-scale", "2", "--url", api.url) == 0
    assert capsys.readouterr().out == JOB_ID + "\n"
    (asked,) = api.asked
    body = json.loads(asked.body)
    assert (body["adapters"], body["guidance_scale"]) == ([{"source": "night", "scale": 0.5}], 2.0)
    assert len(asked.headers["idempotency-key"]) == 32


def test_json_is_the_whole_job_and_nothing_else(
    api: ApiServer, hotslot: Hotslot, capsys: pytest.CaptureFixture[str]
) -> None:
    served(api, result=finished())
    assert hotslot("submit", "a fox", "--json", "--wait", "--url", api.url) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "succeeded"


def test_an_image_is_downloaded(
    api: ApiServer, hotslot: Hotslot, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served(api, result=finished())
    out = tmp_path / "new" / "fox.png"
    assert hotslot("submit", "a fox", "-o", str(out), "--url", api.url) == 0
    assert out.read_bytes() == b"image"
    assert "wrote" in capsys.readouterr().err


def test_an_image_with_other_bytes_is_not_written(
    api: ApiServer, hotslot: Hotslot, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served(api, image=b"altered", result=finished())
    assert hotslot("submit", "a fox", "-o", str(tmp_path / "fox.png"), "--url", api.url) == 1
    assert "not the one that the job made" in capsys.readouterr().err.replace("\n", " ")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_submitted_when_the_image_could_not_be_written(
    api: ApiServer, hotslot: Hotslot, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert hotslot("submit", "a fox", "-o", str(tmp_path / "file" / "fox.png"), "--url", api.url) == 2
    assert "no image can be written there" in capsys.readouterr().err
    assert api.asked == []


def test_watching_refuses_an_ending_of_another_format(
    api: ApiServer, hotslot: Hotslot, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served(api, result=finished())
    assert hotslot("watch", JOB_ID, "-o", str(tmp_path / "w.jpg"), "--url", api.url) == 1
    assert "the ending says jpeg, but the format is png" in capsys.readouterr().err
    assert hotslot("watch", JOB_ID, "-o", str(tmp_path / "w.png"), "--url", api.url) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["w.png"]


def test_a_failed_job_is_a_failure_with_its_sentence(
    api: ApiServer, hotslot: Hotslot, capsys: pytest.CaptureFixture[str]
) -> None:
    error = JobError(code="adapter_mismatch", message="Its layers are others.", retryable=False)
    served(api, Status.FAILED, error=error)
    assert hotslot("watch", JOB_ID, "--url", api.url) == 1
    assert "Its layers are others. (adapter_mismatch)" in capsys.readouterr().err


def test_a_cancelled_job_is_a_failure_too(api: ApiServer, hotslot: Hotslot, capsys: pytest.CaptureFixture[str]) -> None:
    served(api, Status.CANCELLED)
    assert hotslot("submit", "a fox", "--wait", "--url", api.url) == 1
    assert "was cancelled" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("submit", "a fox"), "steps: 0 is not allowed"),
        (("watch", JOB_ID), "steps: 0 is not allowed"),
        (("queues",), "steps: 0 is not allowed"),
        (("watch", "not/an/id"), "not the id of a job"),
        (("submit", "a fox", "-a", ":1"), "names no adapter"),
        (("submit", "a fox", "-o", "x.gif"), "the ending says no format"),
    ],
)
def test_refusals_are_one_sentence(
    api: ApiServer, hotslot: Hotslot, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    api.answer = lambda asked: problem(422, "invalid_request", "steps: 0 is not allowed.")
    assert hotslot(*arguments, "--url", api.url) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("hotslot: ")
    assert words in captured.err
    assert captured.err.count("\n") == 1


def test_nobody_there(hotslot: Hotslot, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert hotslot("queues", "--url", url) == 1
    assert capsys.readouterr().err == f"hotslot: No Hotslot at {url}; start one with: hotslot up\n"


def test_a_setting_that_is_wrong_is_named(
    hotslot: Hotslot, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOTSLOT_LEASE_MS", "soon")
    settings.cache_clear()
    try:
        assert hotslot("queues") == 2
    finally:
        settings.cache_clear()
    assert capsys.readouterr().err.startswith("hotslot: HOTSLOT_LEASE_MS is not valid")


def test_help_names_every_command(hotslot: Hotslot, capsys: pytest.CaptureFixture[str]) -> None:
    assert hotslot("--help") == 0
    shown = capsys.readouterr().out
    assert all(f" {name} " in shown for name in ("up", "demo", "submit", "watch", "queues"))
