from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from redis import Redis

from shared.embedded import EmbeddedServer
from shared.embedded_program import find_program
from shared.errors import Misconfigured
from tests.need import need

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0

OWNER = """
import sys, time
from pathlib import Path
from shared.embedded import EmbeddedServer
server = EmbeddedServer.start(Path(sys.argv[1]))
server.ask("SET", "kept", "yes")
server.ask("WAITAOF", "1", "0", "10000")
print(server.pid, server.keeper_pid, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module", autouse=True)
def _program() -> None:
    try:
        find_program()
    except Misconfigured as missing:
        need(False, missing.message)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data folder"


def until(true: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end_s, "nothing happened"
        time.sleep(0.05)


def serves(pid: int, folder: Path) -> bool:
    """Whether the process is (still) a server on this folder."""
    try:
        return str(folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


class Owner:
    """Another process that owns a server."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-c", OWNER, str(folder)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}
        )
        assert self.process.stdout is not None
        with self.process.stdout as said:
            self.server_pid, self.keeper_pid = map(int, said.readline().split())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def test_data_survive_a_restart(folder: Path) -> None:
    with EmbeddedServer.start(folder) as server:
        assert server.ask("SET", "a", "b") == b"+OK"
    assert not serves(server.pid, folder)
    with EmbeddedServer.start(folder) as server:
        assert server.ask("GETRANGE", "a", "0", "-1") == b"$1"
        assert server.ask("STRLEN", "a") == b":1"


def test_jobs_cannot_be_evicted_or_lost(folder: Path) -> None:
    with EmbeddedServer.start(folder) as server, Redis.from_url(server.url, decode_responses=True) as client:
        in_force = client.config_get("maxmemory-policy", "appendonly", "appendfsync", "save", "bind")
    assert in_force == {
        "maxmemory-policy": "noeviction",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "bind": "127.0.0.1",
    }


def test_stop_twice_and_a_server_that_died_by_itself(folder: Path) -> None:
    server = EmbeddedServer.start(folder)
    assert server.alive()
    os.kill(server.pid, signal.SIGKILL)
    until(lambda: not server.alive())
    server.stop()
    server.stop()


def test_a_named_port_is_used_and_a_taken_one_is_refused(folder: Path, tmp_path: Path) -> None:
    with EmbeddedServer.start(folder) as first:
        with pytest.raises(Misconfigured, match=str(first.port)):
            EmbeddedServer.start(tmp_path / "other", port=first.port)
        port = first.port
    with EmbeddedServer.start(folder, port=port) as again:
        assert again.url == f"redis://127.0.0.1:{port}/0"


def test_dies_with_its_owner(folder: Path) -> None:
    owner = Owner(folder)
    assert serves(owner.server_pid, folder)
    owner.kill()
    until(lambda: not serves(owner.server_pid, folder))


def test_a_stale_server_is_replaced_and_its_data_kept(folder: Path) -> None:
    owner = Owner(folder)
    os.kill(owner.keeper_pid, signal.SIGKILL)
    owner.kill()
    assert serves(owner.server_pid, folder)
    with EmbeddedServer.start(folder) as server:
        assert not serves(owner.server_pid, folder)
        assert server.ask("EXISTS", "kept") == b":1"


def test_a_server_whose_owner_lives_is_left_alone(folder: Path) -> None:
    owner = Owner(folder)
    try:
        with pytest.raises(Misconfigured, match="Another Hotslot is running"):
            EmbeddedServer.start(folder)
        assert serves(owner.server_pid, folder)
    finally:
        owner.kill()
        until(lambda: not serves(owner.server_pid, folder))


def test_a_stranger_with_the_id_in_the_pid_file_is_left_alone(folder: Path) -> None:
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        folder.mkdir()
        (folder / "server.pid").write_text(str(stranger.pid))
        with EmbeddedServer.start(folder):
            assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_without_a_program_the_error_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("shared.embedded_program.find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Misconfigured, match="install the 'local' extra"):
        EmbeddedServer.start(folder)


@pytest.mark.parametrize(
    ("banner", "accepted"), [("Redis server v=7.0.15 sha=0", True), ("Redis server v=6.2.1 sha=0", False)]
)
def test_a_server_on_path_is_taken_if_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, banner: str, accepted: bool
) -> None:
    monkeypatch.setattr("shared.embedded_program.find_spec", lambda _: None)
    program = tmp_path / "redis-server"
    program.write_text(f"#!/bin/sh\necho '{banner}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    if accepted:
        assert find_program() == program
    else:
        with pytest.raises(Misconfigured):
            find_program()
