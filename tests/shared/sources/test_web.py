"""``https://`` sources against real sockets: parts, versions, redirects, addresses, secrets."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from shared.adapters.header import header_length, read_header
from shared.errors import (
    AdapterChanged,
    AdapterForbidden,
    AdapterTooLarge,
    AdapterUnpinnable,
    AdapterUnreadable,
    AddressRefused,
    HotslotError,
    SourceUnavailable,
    UnknownAdapter,
)
from shared.settings import Settings
from shared.sources.opened import FIRST_BYTES, Opened
from shared.sources.source import WebFile
from shared.sources.sources import Sources
from shared.sources.web import Web
from shared.sources.web_origin import WebOrigin
from tests.need import need
from tests.receiver import Receiver, hang
from tests.shared.sources.safetensors_bytes import header, small, sparse
from tests.source_server import SourceServer, running
from tests.worker.test_post import drip

LOOPBACK = (ip_network("127.0.0.0/8"),)
BODY = bytes(range(256)) * 400


@pytest.fixture
def server() -> Iterator[SourceServer]:
    with running() as server:
        yield server


def sources_for(**changes: Any) -> Sources:
    return Sources(Settings.model_validate({"adapter_allowed_networks": LOOPBACK} | changes))


@pytest.fixture(scope="module")
def sources() -> Sources:
    return sources_for()


def download(sources: Sources, opened: Opened, begin_bytes: int = 0) -> bytes:
    got, sizes = bytearray(), []
    sources.download(opened.identity, begin_bytes, sizes.append, got.extend)
    assert sizes == [opened.size_bytes]
    return bytes(got)


def test_size_version_and_parts(server: SourceServer, sources: Sources) -> None:
    url = server.serve("/a", BODY)
    opened = sources.open_source(url)
    assert (opened.size_bytes, opened.sha256) == (len(BODY), None)
    assert (opened.identity.location, opened.identity.revision) == (url, 'etag:"v1"')
    assert opened.read_range(10, 20) == BODY[10:30]
    assert len(server.asked) == 1, "what came with the size is not asked for again"
    assert opened.read_range(FIRST_BYTES - 5, 10) == BODY[FIRST_BYTES - 5 : FIRST_BYTES + 5]
    assert opened.read_range(len(BODY) - 3, 10) == BODY[-3:]
    assert download(sources, opened) == BODY
    assert download(sources, opened, 1000) == BODY[1000:]
    with pytest.raises(ValueError, match="not read at once"):
        opened.read_range(0, 1 << 30)


def test_a_gigabyte_is_looked_into_for_less_than_a_megabyte(
    server: SourceServer, sources: Sources, tmp_path: Path
) -> None:
    """The real header reader on a real 1 GB file, bytes counted by the server that sends them."""
    size_bytes = 1 << 30
    opened = sources.open_source(server.serve("/large", sparse(tmp_path / "large", size_bytes)))
    length = header_length(opened.read_range(0, 32), opened.size_bytes)
    read = read_header(opened.read_range, opened.size_bytes)
    assert opened.size_bytes == 8 + length + size_bytes
    assert [entry.shape for entry in read.tensors.values()] == [(size_bytes,)]
    assert server.sent_bytes < 1 << 20
    assert server.sent_bytes <= FIRST_BYTES


def test_a_server_without_ranges_is_served_too(server: SourceServer, sources: Sources) -> None:
    opened = sources.open_source(server.serve("/a", BODY, ranges=False))
    assert opened.size_bytes == len(BODY)
    assert opened.read_range(FIRST_BYTES, 100) == BODY[FIRST_BYTES : FIRST_BYTES + 100]
    assert download(sources, opened, 1000) == BODY[1000:]


def test_a_file_that_is_replaced_is_noticed_in_every_part(server: SourceServer, sources: Sources) -> None:
    opened = sources.open_source(server.serve("/a", BODY))
    server.serve("/a", BODY[::-1], headers={"ETag": '"v2"'})
    with pytest.raises(AdapterChanged):
        opened.read_range(FIRST_BYTES, 100)
    with pytest.raises(AdapterChanged, match="submit the job again"):
        download(sources, opened, 5)
    server.serve("/a", BODY[:100])
    with pytest.raises(AdapterChanged):
        opened.read_range(FIRST_BYTES, 100)


@pytest.mark.parametrize(
    ("headers", "revision"),
    [
        ({"ETag": '"a"', "Last-Modified": "x"}, 'etag:"a"'),
        ({"ETag": 'W/"a"'}, f'etag:W/"a";bytes={len(BODY)}'),
        ({"Last-Modified": "Thu, 01 Jan 2026"}, f"modified:Thu, 01 Jan 2026;bytes={len(BODY)}"),
    ],
)
def test_the_best_version_that_a_server_tells(
    server: SourceServer, sources: Sources, headers: dict[str, str], revision: str
) -> None:
    assert sources.open_source(server.serve("/a", BODY, headers=headers)).identity.revision == revision


@pytest.mark.parametrize("how", [{"headers": {}}, {"with_length": False, "ranges": False}])
def test_a_file_without_version_or_size_is_refused(server: SourceServer, sources: Sources, how: dict[str, Any]) -> None:
    with pytest.raises(AdapterUnpinnable):
        sources.open_source(server.serve("/a", BODY, **how))


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, AdapterForbidden), (403, AdapterForbidden), (404, UnknownAdapter), (410, UnknownAdapter),
        (400, UnknownAdapter), (204, UnknownAdapter), (429, SourceUnavailable), (500, SourceUnavailable),
        (503, SourceUnavailable),
    ],
)  # fmt: skip
def test_what_a_status_means(server: SourceServer, sources: Sources, status: int, error: type[HotslotError]) -> None:
    with pytest.raises(error) as refused:
        sources.open_source(server.serve("/a", b"", status=status), field="adapters[1].source")
    assert refused.value.field == "adapters[1].source"
    assert refused.value.message.startswith("adapters[1].source: http://127.0.0.1")


def test_an_empty_file(server: SourceServer, sources: Sources) -> None:
    with pytest.raises(AdapterUnreadable, match="0 bytes"):
        sources.open_source(server.serve("/a", b""))


def test_a_file_that_is_too_large_is_not_read(server: SourceServer) -> None:
    sources = sources_for(adapter_largest_bytes=1000)
    with pytest.raises(AdapterTooLarge, match=f"{len(BODY)} bytes; at most 1000"):
        sources.open_source(server.serve("/a", BODY))
    opened = sources.open_source(server.serve("/a", BODY[:1000]))
    server.serve("/a", BODY)
    with pytest.raises(AdapterTooLarge):
        download(sources, opened)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<!DOCTYPE html><title>Sign in</title>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "Git LFS pointer"),
    ],
)
def test_a_page_or_a_pointer_instead_of_the_file_is_named(
    server: SourceServer, sources: Sources, body: bytes, said: str
) -> None:
    opened = sources.open_source(server.serve("/a", body))
    with pytest.raises(AdapterUnreadable, match=said):
        header_length(opened.read_range(0, 32), opened.size_bytes)


# --- redirects and addresses ----------------------------------------------------------------------


def test_redirects_are_followed_and_the_end_of_the_way_is_read(server: SourceServer, sources: Sources) -> None:
    server.moved = {"/a": "/b?x=1", "/b": f"{server.url}/c"}
    server.serve("/c", BODY)
    opened = sources.open_source(f"{server.url}/a")
    assert opened.identity.location == f"{server.url}/a"
    assert download(sources, opened) == BODY
    assert server.asked[1].path == "/b?x=1"


def test_redirects_without_end(server: SourceServer, sources: Sources) -> None:
    server.moved = {"/a": "/a"}
    with pytest.raises(SourceUnavailable, match="redirects more than 5 times"):
        sources.open_source(f"{server.url}/a")


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data", "https://10.0.0.1/x", "http://[::ffff:10.0.0.1]/x",
        "http://2130706434.example/x", "https://192.168.1.1:8443/", "//10.1.2.3/x", "https://[fd00::1]/x",
        "file:///etc/passwd", "gopher://127.0.0.1/", "http://user@127.0.0.1/",
    ],
)  # fmt: skip
def test_a_redirect_to_an_address_of_the_inside(server: SourceServer, location: str) -> None:
    asked: list[str] = []

    def resolver(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["10.0.0.9"]

    server.moved = {"/a": location}
    sources = Sources(Settings.model_validate({"adapter_allowed_networks": LOOPBACK}), resolver=resolver)
    with pytest.raises(AddressRefused):
        sources.open_source(f"{server.url}/a")


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/a", "http://127.0.0.1/a", "https://10.0.0.1/a", "https://169.254.169.254/latest",
        "https://[::ffff:127.0.0.1]/a", "http://2130706433/a", "https://0x7f.1/a", "https://localhost/a",
        "https://inside.example/a",
    ],
)  # fmt: skip
def test_addresses_of_the_inside_are_refused_unless_allowed(url: str) -> None:
    sources = Sources(Settings(), resolver=lambda host, port: ["93.184.216.34", "10.0.0.1"])
    with pytest.raises(AddressRefused):
        sources.open_source(url)


def test_plain_http_is_refused_to_the_outside() -> None:
    sources = Sources(
        Settings(adapter_allowed_networks=LOOPBACK), resolver=lambda host, port: ["93.184.216.34"]
    )  # fmt: skip
    with pytest.raises(AddressRefused, match="write https://"):
        sources.open_source("http://example.com/a")


def test_a_name_that_changes_its_mind_gains_nothing(server: SourceServer) -> None:
    """DNS rebinding: public when it is checked, inside when it is connected to; it is looked up once per request."""
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])
    sources = Sources(
        Settings(adapter_allowed_networks=LOOPBACK), resolver=lambda host, port: next(answers)
    )  # fmt: skip
    server.serve("/a", BODY)
    opened = sources.open_source(f"http://rebinding.example:{server.server_port}/a")
    assert server.asked[0].headers["host"] == f"rebinding.example:{server.server_port}"
    with pytest.raises(AddressRefused):
        opened.read_range(FIRST_BYTES, 10)
    assert len(server.asked) == 1


def test_a_name_that_does_not_resolve() -> None:
    def resolver(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror("no such name")

    with pytest.raises(SourceUnavailable, match="does not resolve"):
        Sources(Settings(), resolver=resolver).open_source("https://nowhere.example/a")


# --- time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [drip, hang])
def test_a_server_that_takes_its_time_is_left(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    monkeypatch.setattr("shared.sources.sources.OPEN_BUDGET_S", 0.5)
    with Receiver(answer) as receiver:
        began_s = time.monotonic()
        with pytest.raises(SourceUnavailable, match=r"within 0\.5 s"):
            sources_for().open_source(receiver.url)
        assert time.monotonic() - began_s < 20


def test_a_resolver_that_hangs_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.sources.sources.OPEN_BUDGET_S", 0.3)

    def resolver(host: str, port: int) -> Sequence[str]:
        time.sleep(2)
        return ["93.184.216.34"]

    with pytest.raises(SourceUnavailable, match="within"):
        Sources(Settings(), resolver=resolver).open_source("https://slow.example/a")


def test_nobody_listens(unused_port: int, sources: Sources) -> None:
    with pytest.raises(SourceUnavailable, match="cannot be reached"):
        sources.open_source(f"http://127.0.0.1:{unused_port}/a?secret=1")


# --- secrets --------------------------------------------------------------------------------------


def test_a_presigned_query_is_sent_and_never_told(
    server: SourceServer, sources: Sources, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    opened = sources.open_source(server.serve("/a", BODY) + "?X-Amz-Signature=hunter2")
    assert server.asked[0].path == "/a?X-Amz-Signature=hunter2"
    assert opened.identity.key == sources.open_source(f"{server.url}/a?X-Amz-Signature=other").identity.key
    for path in ("/absent", "/forbidden", "/moved"):
        server.serve("/forbidden", b"", status=403)
        server.moved["/moved"] = "http://10.0.0.1/x"
        with pytest.raises(HotslotError) as refused:
            sources.open_source(f"{server.url}{path}?X-Amz-Signature=hunter2")
        chain: BaseException | None = refused.value
        while chain is not None:
            assert "hunter2" not in str(chain)
            chain = chain.__cause__ or chain.__context__
    assert "hunter2" not in "".join(
        record.getMessage() for record in caplog.records if not record.name.startswith("httpx2")
    )


# --- TLS ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    openssl = shutil.which("openssl")
    need(openssl is not None, "The program openssl is missing: apt install openssl.")
    assert openssl is not None
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=files.example",
         "-addext", "subjectAltName=DNS:files.example", "-keyout", path, "-out", path.with_suffix(".crt")],
        check=True, capture_output=True,
    )  # fmt: skip
    path.write_text(path.read_text() + path.with_suffix(".crt").read_text())
    return path


@pytest.fixture
def tls_server(certificate: Path) -> Iterator[SourceServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with running(tls=context) as server:
        yield server


def secure(certificate: Path | None) -> WebOrigin:
    tls = ssl.create_default_context(cafile=certificate.with_suffix(".crt")) if certificate else None
    return WebOrigin(Web(LOOPBACK, resolver=lambda host, port: ["127.0.0.1"], tls=tls), 1 << 30)


def test_the_certificate_is_that_of_the_name(tls_server: SourceServer, certificate: Path) -> None:
    tls_server.serve("/a", BODY)
    port = tls_server.server_port
    assert secure(certificate).open(WebFile(f"https://files.example:{port}/a"), 30).size_bytes == len(BODY)
    for origin, host in ((secure(certificate), "other.example"), (secure(None), "files.example")):
        with pytest.raises(SourceUnavailable):
            origin.open(WebFile(f"https://{host}:{port}/a"), 30)


def test_https_is_not_left_for_http(tls_server: SourceServer, server: SourceServer, certificate: Path) -> None:
    tls_server.moved = {"/a": server.serve("/a", BODY)}
    with pytest.raises(AddressRefused, match="from https:// to http://"):
        secure(certificate).open(WebFile(f"https://files.example:{tls_server.server_port}/a"), 30)
    assert server.asked == []


def test_small_files_are_whole_safetensors() -> None:
    body = small()
    assert read_header(lambda offset, length: body[offset : offset + length], len(body)).tensors
    assert body.startswith(header(1000))
