"""The HTTP edge against real sockets, also unfriendly ones."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from shared.addresses import Target, split
from tests.receiver import Answer as ReceiverAnswer
from tests.receiver import Handler, Received, Receiver, hang, status
from worker.judge import Answer
from worker.post import MOST_RESPONSE_BYTES, HttpPost

BODY = '{"prompt": "猫"}'.encode()
LONG_S = 60.0


@pytest.fixture(scope="module")
def post() -> HttpPost:
    return HttpPost()


def send(post: HttpPost, url: str, timeout_s: float = LONG_S) -> Answer:
    target = split(url)
    return post(target, target.host, BODY, {"webhook-id": "evt_1"}, timeout_s)


def drip(received: Received, handler: Handler) -> None:
    """A header line that never ends."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nx: ")
    while not handler.server.receiver.leave.wait(0.05):
        handler.wfile.write(b"y")


def endless(received: Received, handler: Handler) -> None:
    """A body that never ends, as fast as it is read."""
    handler.wfile.write(b"HTTP/1.1 202 Accepted\r\n\r\n")
    while not handler.server.receiver.leave.is_set():
        handler.wfile.write(b"z" * MOST_RESPONSE_BYTES)


def stalled(received: Received, handler: Handler) -> None:
    """A promised body that never comes."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n")
    handler.server.receiver.leave.wait(LONG_S)


@contextmanager
def listener() -> Iterator[tuple[int, list[bytes]]]:
    """A socket that hangs up after the first bytes; yields its port and what came."""
    heard: list[bytes] = []

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            heard.append(connection.recv(65536))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1], heard
        thread.join()


def test_exactly_the_path_and_bytes(post: HttpPost) -> None:
    with Receiver() as receiver:
        assert send(post, f"http://127.0.0.1:{receiver.port}/a%2Fb/../c?q=%20&r=[x]|y") == 204
        (got,) = receiver.received
    assert got.path == "/a%2Fb/../c?q=%20&r=[x]|y"
    assert got.body == BODY
    assert got.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert got.headers["webhook-id"] == "evt_1"


def test_the_connection_goes_to_the_checked_address(post: HttpPost) -> None:
    with Receiver() as receiver:
        target = Target("http", "no-such-name.example", receiver.port, "/")
        assert post(target, "127.0.0.1", BODY, {}, LONG_S) == 204
    assert receiver.received[0].headers["host"] == f"no-such-name.example:{receiver.port}"


def test_tls_asks_for_the_name_and_not_for_the_address(post: HttpPost) -> None:
    with listener() as (port, heard):
        answer = post(Target("https", "receiver.example", port, "/"), "127.0.0.1", BODY, {}, LONG_S)
    assert isinstance(answer, str)
    assert b"receiver.example" in heard[0]
    assert BODY not in heard[0]


def test_a_redirect_is_an_answer(post: HttpPost) -> None:
    with Receiver() as inside, Receiver(status(302, location=inside.url)) as receiver:
        assert send(post, receiver.url) == 302
        assert inside.received == []


@pytest.mark.parametrize("answer", [drip, hang])
def test_the_time_limit_is_for_everything(post: HttpPost, answer: ReceiverAnswer) -> None:
    with Receiver(answer) as receiver:
        began_s = time.monotonic()
        assert send(post, receiver.url, timeout_s=0.5) == "no answer within 0.5 s"
        assert time.monotonic() - began_s < LONG_S / 2


def test_an_endless_body_is_not_read(post: HttpPost) -> None:
    with Receiver(endless) as receiver:
        assert send(post, receiver.url) == 202


def test_a_body_that_never_comes_does_not_undo_the_status(post: HttpPost) -> None:
    with Receiver(stalled) as receiver:
        assert send(post, receiver.url, timeout_s=3) == 200


def test_nobody_listens(post: HttpPost) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert str(send(post, f"http://127.0.0.1:{port}/")).startswith("ConnectError")


def test_a_hang_up_is_named(post: HttpPost) -> None:
    with listener() as (port, _):
        assert str(send(post, f"http://127.0.0.1:{port}/secret-path")).startswith(("ReadError", "RemoteProtocolError"))


def test_proxies_of_the_environment_are_not_asked(post: HttpPost, monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as proxy, Receiver() as receiver:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("all_proxy", f"http://127.0.0.1:{proxy.port}")
        assert send(post, receiver.url) == 204
        assert proxy.received == []
