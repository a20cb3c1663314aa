"""Inspecting and registering adapters, and what submit makes of files that cannot be served."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import pytest

from shared.registry import Registry
from tests.adapter_bytes import SKETCH, TINY_LAYER, WIDTH, adapter_bytes, lora
from tests.api.live import BASE, Live, problem_of

SOURCE = "file:mine/sketch.safetensors"
Write = Callable[[bytes], str]


@pytest.fixture
def write(live: Live) -> Iterator[Write]:
    """Puts a file into the adapter folder; its source."""
    folder = live.settings.adapter_folder
    assert folder is not None
    written: list[Path] = []

    def put(content: bytes) -> str:
        written.append(folder / f"file{len(written)}.safetensors")
        written[-1].write_bytes(content)
        return f"file:{written[-1].name}"

    yield put
    for path in written:
        path.unlink()


def inspect(live: Live, source: str, **more: str) -> dict[str, Any]:
    response = live.http.post("/v1/adapters/inspect", json={"source": source} | more)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


KOHYA = "lora_unet_double_blocks_0_img_attn_proj"
REFUSED = {
    "dora": (adapter_bytes(lora() | {f"{TINY_LAYER}.lora_magnitude_vector": (WIDTH,)}), "adapter_unsupported", "dora"),
    "loha": (adapter_bytes({f"{KOHYA}.hada_w1_a": (4, WIDTH)}), "adapter_unsupported", "loha"),
    "control": (
        adapter_bytes(
            {"transformer.x_embedder.lora_A.weight": (4, 64), "transformer.x_embedder.lora_B.weight": (WIDTH, 4)}
        ),
        "adapter_unsupported",
        "control",
    ),
    "doubled": (adapter_bytes(lora(width=128)), "adapter_mismatch", "shape"),
    "rank": (adapter_bytes(lora(rank=33)), "adapter_rank_too_large", "rank_too_large"),
    "other family": (adapter_bytes(lora("unet.mid_block.attentions.0.proj_in")), "adapter_mismatch", "other_family"),
    "text encoder": (
        adapter_bytes(lora("text_encoder.text_model.encoder.layers.0.mlp.fc1")),
        "adapter_unsupported",
        "text_encoder",
    ),
    "half a file": (SKETCH[: len(SKETCH) // 2], "adapter_unreadable", "cut_off"),
    "nothing": (b"", "adapter_unreadable", "empty"),
    "trailing": (SKETCH + bytes(8), "adapter_unreadable", "trailing_bytes"),
    "web page": (b"<!DOCTYPE html><html>404</html>", "adapter_unreadable", "web_page"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "adapter_unreadable", "git_lfs"),
    "pickle": (b"PK\x03\x04" + bytes(60), "adapter_unreadable", "pickle"),
    "huge claim": ((1 << 40).to_bytes(8, "little") + b"{}", "adapter_unreadable", "header_too_long"),
    "no tensors": (adapter_bytes({}), "adapter_unsupported", "no_tensors"),
    "whole numbers": (adapter_bytes(lora(), dtype="I8"), "adapter_unsupported", "dtype"),
}


def test_what_fits(live: Live) -> None:
    found = inspect(live, SOURCE)
    assert found["verdict"] == {
        "base_model": BASE,
        "outcome": "fits",
        "code": None,
        "reason": None,
        "sentence": None,
    }
    assert (found["family"], found["dialect"], found["tensors"]) == ("flux.1", "diffusers", 2)
    assert found["ranks"] == {"smallest": 4, "largest": 4, "layers": {"4": 1}}
    assert found["size_bytes"] == len(SKETCH)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_an_answer_when_asked_for(name: str, live: Live, write: Write) -> None:
    content, code, reason = REFUSED[name]
    verdict = inspect(live, write(content), base_model=BASE)["verdict"]
    assert (verdict["outcome"], verdict["code"], verdict["reason"]) == ("refused", code, reason)
    assert verdict["sentence"].endswith(".")


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_an_error_when_used(name: str, live: Live, write: Write) -> None:
    content, code, reason = REFUSED[name]
    source = write(content)
    for path, body, field in (
        ("/v1/jobs", {"prompt": "a fox", "base_model": BASE, "adapters": [{"source": source}]}, "adapters[0].source"),
        ("/v1/jobs", {"prompt": "a fox", "adapters": [{"source": source}]}, "adapters[0].source"),
        ("/v1/adapters", {"name": "bad", "source": source}, "source"),
    ):
        problem = problem_of(live.http.post(path, json=body), 422, code)
        assert (problem["field"], problem["reason"]) == (field, reason)
        assert problem["detail"].startswith(f"{field}: ")
    assert live.redis.keys("hotslot:job:*") == []
    assert live.http.get("/v1/adapters").json() == {"adapters": []}


def test_a_file_tells_its_base_model(live: Live) -> None:
    response = live.http.post("/v1/jobs", json={"prompt": "a fox", "adapters": [{"source": SOURCE}]})
    assert response.status_code == 202, response.text
    assert response.json()["base_model"] == BASE


def test_ranks_of_one_layer_are_added_up(live: Live, write: Write) -> None:
    sources = [write(adapter_bytes(lora(rank=rank))) for rank in (16, 17)]
    body = {"prompt": "a fox", "base_model": BASE, "adapters": [{"source": source} for source in sources]}
    problem = problem_of(live.http.post("/v1/jobs", json=body), 422, "adapter_rank_too_large")
    assert "rank 33 in transformer.transformer_blocks.0.attn.to_q" in problem["detail"]
    elsewhere = write(adapter_bytes(lora("transformer.transformer_blocks.1.attn.to_q", rank=17)))
    body["adapters"] = [{"source": sources[0]}, {"source": elsewhere}]
    assert live.http.post("/v1/jobs", json=body).status_code == 202


def test_ranks_of_names_are_added_up_layer_by_layer_too(live: Live, write: Write) -> None:
    other = TINY_LAYER.replace("blocks.0", "blocks.1")
    files = {"first": lora(rank=17), "same": lora(rank=18), "elsewhere": lora(other, rank=17)}
    sources = {name: write(adapter_bytes(shapes)) for name, shapes in files.items()}
    for name, source in sources.items():
        live.http.post("/v1/adapters", json={"name": name, "source": source})
    live.register("night", rank=8)
    live.register("wide", rank=25)

    def asked(*adapters: str) -> httpx2.Response:
        body = {"prompt": "a fox", "base_model": BASE, "adapters": [{"source": source} for source in adapters]}
        return live.http.post("/v1/jobs", json=body)

    for taken in (
        ("first", "elsewhere"),
        (sources["first"], "elsewhere"),
        ("first", "night"),
        ("first", "elsewhere", "night"),
    ):
        assert asked(*taken).status_code == 202, taken
    for refused in (("first", "same"), ("first", sources["same"]), ("first", "wide"), ("night", "wide")):
        problem = problem_of(asked(*refused), 422, "adapter_rank_too_large")
        assert "the largest sum served here is 32" in problem["detail"]
    assert "rank 33 in their largest layers" in problem["detail"]


# --- the registry ---------------------------------------------------------------------------------


def test_a_registered_name_can_be_used_read_listed_and_forgotten(live: Live) -> None:
    response = live.http.post("/v1/adapters", json={"name": "sketch", "source": SOURCE})
    assert response.status_code == 201, response.text
    made = response.json()
    assert (made["name"], made["base_model"], made["source"], made["rank"]) == ("sketch", BASE, SOURCE, 4)
    assert made["sha256"] == made["inspection"]["sha256"] == sha256(SKETCH).hexdigest()
    assert live.http.get("/v1/adapters/sketch").json() == made
    assert live.http.get("/v1/adapters").json() == {"adapters": [made]}
    job = live.submit(adapters=[{"source": "sketch"}])
    assert live.http.delete("/v1/adapters/sketch").status_code == 204
    assert live.queue.get(job["id"]).spec.adapters[0].sha256 == made["sha256"]
    problem_of(live.http.get("/v1/adapters/sketch"), 404, "adapter_not_found")
    problem_of(live.http.delete("/v1/adapters/sketch"), 404, "adapter_not_found")


def test_a_name_can_mean_another_file_later(live: Live, write: Write) -> None:
    for content in (SKETCH, adapter_bytes(lora(rank=8))):
        live.http.post("/v1/adapters", json={"name": "sketch", "source": write(content)})
        assert Registry(live.redis).all()["sketch"].sha256 == sha256(content).hexdigest()


def test_names_of_built_in_adapters_are_taken(live: Live) -> None:
    live.register("night")
    problem_of(live.http.post("/v1/adapters", json={"name": "night", "source": SOURCE}), 409, "adapter_reserved")
    problem_of(live.http.delete("/v1/adapters/night"), 409, "adapter_reserved")
    assert live.http.get("/v1/adapters/night").json()["inspection"] is None


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"name": "a/b", "source": SOURCE}, "invalid_request", "name"),
        ({"name": "", "source": SOURCE}, "invalid_request", "name"),
        ({"name": "sketch", "source": ""}, "invalid_request", "source"),
        ({"name": "sketch", "source": SOURCE, "scale": 1}, "invalid_request", "scale"),
        ({"name": "sketch", "source": "file:absent"}, "adapter_unknown", "source"),
        ({"name": "sketch", "source": "file:../secret"}, "adapter_unknown", "source"),
        ({"name": "sketch", "source": "file:a\0b"}, "adapter_unknown", "source"),
        ({"name": "sketch", "source": "file:" + "x" * 1000}, "adapter_unknown", "source"),
        ({"name": "sketch", "source": "gopher:x"}, "adapter_unknown", "source"),
        ({"name": "sketch", "source": SOURCE, "base_model": "none"}, "base_model_unknown", "base_model"),
    ],
)
def test_what_cannot_be_registered(live: Live, body: dict[str, Any], code: str, field: str) -> None:
    assert problem_of(live.http.post("/v1/adapters", json=body), 422, code)["field"] == field


def test_pins(live: Live) -> None:
    live.register("night", "mosaic")
    assert live.http.post("/v1/adapters/night/pin").json()["pinned"] is True
    assert live.http.get("/v1/adapters/night").json()["pinned"] is True
    listed = live.http.get("/v1/adapters").json()["adapters"]
    assert {one["name"]: one["pinned"] for one in listed} == {"mosaic": False, "night": True}
    registry = Registry(live.redis)
    assert [one.name for one in registry.pinned_for(BASE)] == ["night"]
    assert registry.pinned_for("another") == []
    assert live.http.delete("/v1/adapters/night/pin").json()["pinned"] is False
    assert registry.pinned_for(BASE) == []


def test_a_pin_belongs_to_the_name_and_goes_with_it(live: Live) -> None:
    body = {"name": "sketch", "source": SOURCE, "base_model": BASE}
    assert live.http.post("/v1/adapters", json=body).json()["pinned"] is False
    live.http.post("/v1/adapters/sketch/pin")
    assert live.http.post("/v1/adapters", json=body).json()["pinned"] is True
    live.http.delete("/v1/adapters/sketch")
    assert live.http.post("/v1/adapters", json=body).json()["pinned"] is False


def test_what_is_not_registered_cannot_be_pinned(live: Live) -> None:
    for ask in (live.http.post, live.http.delete):
        problem_of(ask("/v1/adapters/nobody/pin"), 404, "adapter_not_found")
