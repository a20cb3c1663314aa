"""The address guard, spelled in every way that callers have tried."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.addresses import Target, check_url, look_up, resolve, split
from shared.errors import AddressRefused, HotslotError, InvalidRequest

PUBLIC = "93.184.216.34"
LOOPBACK = [ip_network("127.0.0.0/8")]
INSIDE = [
    "http://127.0.0.1/",
    "http://127.0.0.1:6379",
    "https://127.255.255.254/x?y=z",
    "http://10.0.0.1",
    "http://172.16.0.1",
    "http://172.31.255.255",
    "http://192.168.1.1",
    "http://169.254.169.254/latest/meta-data/",
    "http://168.63.129.16",
    "http://100.64.0.1",
    "http://100.100.100.200",
    "http://192.0.0.192",
    "http://198.18.0.1",
    "http://0.0.0.0",
    "http://0",
    "http://224.0.0.1",
    "http://240.0.0.1",
    "http://255.255.255.255",
    # other spellings of IPv4
    "http://2130706433",
    "http://0x7f000001",
    "http://0x7f.1",
    "http://0X7F.0.0.1",
    "http://0177.0.0.1",
    "http://127.1",
    "http://127.0.1",
    "http://127.0.0.1.",
    "http://１２７.０.０.１",
    "http://127。0。0。1",
    # IPv6, plain and carrying IPv4
    "http://[::1]",
    "http://[0:0:0:0:0:0:0:1]:8080",
    "http://[::]",
    "http://[::ffff:127.0.0.1]",
    "http://[::ffff:7f00:1]",
    "http://[::ffff:0:127.0.0.1]",
    "http://[::127.0.0.1]",
    "http://[64:ff9b::127.0.0.1]",
    "http://[64:ff9b:1::1]",
    "http://[2002:7f00:1::]",
    "http://[2002:a00:1::1]",
    "http://[2001::1]",
    "http://[2001:db8::1]",
    "http://[fe80::1]",
    "http://[fec0::1]",
    "http://[fc00::1]",
    "http://[fd00:ec2::254]",
    "http://[ff02::1]",
    "http://[100::1]",
    # names of fixed meaning
    "http://localhost:8000",
    "http://LocalHost.",
    "http://api.localhost",
]
MALFORMED = [
    "",
    "example.org",
    "//example.org",
    "http://",
    "http:///path",
    "http:example.org",
    "ftp://example.org",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "http://user@example.org",
    "http://user:password@example.org",
    "http://93.184.216.34@127.0.0.1/",
    "http://example.org:0",
    "http://example.org:65536",
    "http://example.org:-1",
    "http://example.org:8o",
    "http://example.org\\@127.0.0.1",
    "http://exam ple.org",
    "http://example.org/\r\nHost: inside",
    "\thttp://example.org",
    "http://example.org/\x00",
    "http://ex%61mple.org",
    "http://a..b",
    "http://.",
    "http://" + "a" * 64 + ".org",
    "http://[::1",
    "http://[fe80::1%25eth0]",
    "http://[v1.x]",
    "http://1.2.3.4.5",
    "http://256.1.1.1",
    "http://08.1.1.1",
    "http://0x1ffffffff",
]
OUTSIDE = [
    "https://example.org/hook?token=1#part",
    "http://93.184.216.34:8080/",
    "http://172.15.255.255",
    "http://172.32.0.1",
    "http://100.63.255.255",
    "http://[2606:4700::1111]/",
    "http://[::ffff:93.184.216.34]",
    "http://[64:ff9b::93.184.216.34]",
    "http://bücher.example/ü?q=ü",
    "http://my_service.example:1",
    "http://localhost.example",
]


@pytest.mark.parametrize("url", INSIDE)
def test_inside_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused) as caught:
        check_url(url, [], field="webhook.url")
    assert caught.value.field == "webhook.url"
    assert caught.value.message.startswith("webhook.url: ")


@pytest.mark.parametrize("url", MALFORMED)
def test_malformed_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_url(url, [ip_network("0.0.0.0/0"), ip_network("::/0")], field="webhook.url")
    assert caught.value.field == "webhook.url"
    assert "password" not in caught.value.message.replace("user name or password", "")


@pytest.mark.parametrize("url", OUTSIDE)
def test_outside_is_taken(url: str) -> None:
    check_url(url, [], field="webhook.url")


@pytest.mark.parametrize(
    ("url", "network"),
    [
        ("http://127.0.0.1:9/", "127.0.0.0/8"),
        ("http://0x7f.1/", "127.0.0.1/32"),
        ("http://[::ffff:10.1.2.3]/", "10.0.0.0/8"),
        ("http://[::1]/", "::1/128"),
        ("http://localhost/", "127.0.0.0/8"),
        ("http://localhost/", "::1/128"),
        ("http://hook.localhost/", "127.0.0.0/8"),
    ],
)
def test_the_operator_can_allow_a_network(url: str, network: str) -> None:
    check_url(url, [ip_network(network)], field="webhook.url")
    with pytest.raises(AddressRefused):
        check_url(url, [ip_network("192.168.7.0/24"), ip_network("fd00:7::/32")], field="webhook.url")


def test_parts() -> None:
    assert split("HTTPS://Example.ORG:443/a%2Fb/ü?q=猫&r=%20#part") == Target(
        "https", "example.org", 443, "/a%2Fb/%C3%BC?q=%E7%8C%AB&r=%20"
    )
    assert split("http://example.org?x").path == "/?x"
    assert split("https://example.org").authority == "example.org"
    assert split("https://example.org:80").authority == "example.org:80"
    assert split("http://[2606:4700::1111]:81").authority == "[2606:4700::1111]:81"


def test_a_name_resolves_to_its_first_address() -> None:
    asked: list[tuple[str, int]] = []

    def resolver(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return [PUBLIC, "2606:4700::1111"]

    assert resolve("example.org", 443, [], resolver) == PUBLIC
    assert asked == [("example.org", 443)]


@pytest.mark.parametrize("inside", ["127.0.0.1", "10.0.0.1", "::1", "fe80::1%eth0", "::ffff:169.254.169.254"])
def test_one_inside_address_among_several_refuses_the_name(inside: str) -> None:
    with pytest.raises(AddressRefused):
        resolve("example.org", 80, [], lambda host, port: [PUBLIC, inside])


def test_a_name_that_resolves_public_then_private() -> None:
    answers = iter([[PUBLIC], ["127.0.0.1"]])

    def resolver(host: str, port: int) -> list[str]:
        return next(answers)

    assert resolve("rebind.example", 80, [], resolver) == PUBLIC
    with pytest.raises(AddressRefused):
        resolve("rebind.example", 80, [], resolver)


def test_literals_and_localhost_are_not_looked_up() -> None:
    def resolver(host: str, port: int) -> list[str]:
        raise AssertionError(host)

    assert resolve(PUBLIC, 80, [], resolver) == PUBLIC
    assert resolve("localhost", 80, LOOPBACK, resolver) == "127.0.0.1"
    assert resolve("localhost", 80, [ip_network("::1")], resolver) == "::1"
    with pytest.raises(AddressRefused):
        resolve("localhost", 80, [], resolver)


def test_a_name_without_address_is_an_os_error() -> None:
    with pytest.raises(OSError, match="no address"):
        resolve("example.org", 80, [], lambda host, port: [])


def test_the_system_resolver_is_asked() -> None:
    assert look_up("127.0.0.1", 80) == ["127.0.0.1"]


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_either_read_or_refused(text: str) -> None:
    for url in (text, "http://" + text, "http://[" + text):
        try:
            target = split(url)
        except HotslotError:
            continue
        # What was read is read the same when written out again, so nothing can hide between two readings.
        assert split(f"{target.scheme}://{target.authority}{target.path}") == target


@settings(deadline=None)
@given(st.ip_addresses(v=4), st.sampled_from(["{}", "::ffff:{}", "64:ff9b::{}", "::ffff:0:{}"]))
def test_a_carried_address_is_judged_like_itself(address: object, form: str) -> None:
    def refused(host: str) -> bool:
        try:
            check_url(f"http://{host}/", [], field="url")
        except AddressRefused:
            return True
        return False

    carrier = form.format(address)
    assert refused(f"[{carrier}]" if ":" in carrier else carrier) == refused(str(address))
