"""The guard against requests that a caller makes this service send to addresses of the inside.

A URL is checked at submit as far as its text tells, and again at every request: then the name is resolved once, all of
its addresses are checked, and the connection goes to the address that was checked, so that a name which changes its
mind between the check and the connection (DNS rebinding) gains nothing. Connect to what ``split`` says, never let
another parser read the URL again: two parsers that disagree are a hole.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import quote, urlsplit

from shared.errors import AddressRefused, InvalidRequest, RequestError
from shared.settings import Network

Address = IPv4Address | IPv6Address
Resolver = Callable[[str, int], Sequence[str]]
"""Name and port to addresses; ``OSError`` when the name does not resolve."""

DEFAULT_PORTS = {"http": 80, "https": 443}


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(ip_network(word) for word in text.split())


# IANA's special-purpose registries. 168.63.129.16 looks public but is the platform itself inside Azure.
_REFUSED_V4 = _networks(
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 "
    "192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4"
)
_REFUSED_V6 = _networks("2001::/23 2001:db8::/32 3fff::/20")
_GLOBAL_V6 = IPv6Network("2000::/3")
# Networks whose addresses carry an IPv4 address (mapped, translated, NAT64, 6to4), and how many bits lie behind it.
_CARRIERS = (
    (IPv6Network("::ffff:0:0/96"), 0),
    (IPv6Network("::ffff:0:0:0/96"), 0),
    (IPv6Network("64:ff9b::/96"), 0),
    (IPv6Network("2002::/16"), 80),
)

_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_]([a-z0-9_-]{0,62}))*\Z")
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)\Z")
_REFUSED_TEXT = re.compile(r"[\x00-\x20\x7f-\xa0\\\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True)
class Target:
    """What a URL names. ``host`` is a lower-case ASCII name or an address; ``path`` includes the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """Host and, where it is not the scheme's own, port: a ``Host`` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def check_url(url: str, allowed: Sequence[Network], *, field: str) -> None:
    """Refuse a URL that is malformed (``InvalidRequest``) or leads inside as it stands (``AddressRefused``).

    Names are not looked up here, except ``localhost``, whose meaning is fixed; ``resolve`` does it before connecting.
    """
    try:
        host = split(url).host
        address = _literal(host) or _localhost(host, allowed)
        if address is not None:
            _check(address, host, allowed)
    except RequestError as error:
        raise type(error)(f"{field}: {error.message}", field=field) from error


def split(url: str) -> Target:
    """The parts of an http(s) URL, or ``InvalidRequest`` with what is wrong. The message never repeats the URL."""
    if _REFUSED_TEXT.search(url):
        raise InvalidRequest("A URL holds no spaces, control characters or backslashes.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidRequest("The URL's host or port cannot be read.") from error
    if parts.scheme not in DEFAULT_PORTS:
        raise InvalidRequest("The URL must start with http:// or https://.")
    if "@" in parts.netloc:
        raise InvalidRequest("A URL with a user name or password is not taken.")
    if port == 0:
        raise InvalidRequest("The URL's port must be between 1 and 65535.")
    path = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
    return Target(parts.scheme, _host(parts.netloc, parts.hostname), port or DEFAULT_PORTS[parts.scheme], path)


def resolve(host: str, port: int, allowed: Sequence[Network], resolver: Resolver | None = None) -> str:
    """One address of ``host`` to connect to; ``AddressRefused`` when any of its addresses is refused.

    ``host`` is a ``Target``'s. ``OSError`` when the name does not resolve (now).
    """
    fixed = _literal(host) or _localhost(host, allowed)
    found = [fixed] if fixed else [ip_address(text) for text in (resolver or look_up)(host, port)]
    if not found:
        raise OSError(f"no address of {host}")
    for address in found:
        _check(address, host, allowed)
    return str(found[0])


def look_up(host: str, port: int) -> list[str]:
    """All addresses of a name, by the system's resolver; ``OSError`` when there is none."""
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in answers]


_SAFE = "".join(chr(code) for code in range(0x21, 0x7F))


def _host(netloc: str, host: str | None) -> str:
    if netloc.startswith("["):
        return _bracketed(host or "")
    try:
        # Also folds full-width digits and other dots, which resolvers would read as an address.
        name = (host or "").encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError as error:
        raise InvalidRequest("The URL's host is not a valid name.") from error
    if not name:
        raise InvalidRequest("The URL has no host.")
    if not _NAME.match(name):
        raise InvalidRequest("The URL's host is not a valid name.")
    if _NUMBER.match(name.rpartition(".")[2]):
        number = _spelled_v4(name)
        if number is None:
            raise InvalidRequest("The URL's host is neither a name nor an IPv4 address.")
        return str(number)
    return name


def _bracketed(text: str) -> str:
    try:
        # Python's zone ids ("%eth0") reach addresses of this machine's own links only.
        if "%" in text:
            raise ValueError
        return str(IPv6Address(text))
    except ValueError as error:
        raise InvalidRequest("The URL's host is not an IPv6 address.") from error


def _spelled_v4(name: str) -> IPv4Address | None:
    """An IPv4 address in any spelling that resolvers take: 127.1, 0x7f.1, 0177.0.0.1, 2130706433."""
    words = name.split(".")
    if len(words) > 4 or not all(_NUMBER.match(word) for word in words):
        return None
    try:
        *firsts, last = (_spelled_number(word) for word in words)
    except ValueError:
        return None
    if any(first > 255 for first in firsts) or last >= 256 ** (4 - len(firsts)):
        return None
    return IPv4Address(sum(first << (24 - 8 * place) for place, first in enumerate(firsts)) + last)


def _spelled_number(word: str) -> int:
    if word.startswith("0x"):
        return int(word[2:] or "0", 16)
    return int(word, 8 if word.startswith("0") else 10)


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _localhost(host: str, allowed: Sequence[Network]) -> Address | None:
    """The loopback address that ``localhost`` means here: the first that is allowed, so that both spellings agree."""
    if host != "localhost" and not host.endswith(".localhost"):
        return None
    both = (IPv4Address("127.0.0.1"), IPv6Address("::1"))
    return next((address for address in both if _is_allowed(address, allowed)), both[0])


def _check(address: Address, host: str, allowed: Sequence[Network]) -> None:
    plain = _plain(address)
    if _is_allowed(address, allowed) or _is_allowed(plain, allowed) or _is_public(plain):
        return
    raise AddressRefused(
        f"The host {host!r} leads to an address that is not public; the operator can allow its network."
    )


def _plain(address: Address) -> Address:
    """The IPv4 address that an IPv6 address carries, else the address itself."""
    for network, shift in _CARRIERS:
        if address in network:
            return IPv4Address(int(address) >> shift & 0xFFFFFFFF)
    return address


def _is_allowed(address: Address, allowed: Sequence[Network]) -> bool:
    return any(address in network for network in allowed)


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _REFUSED_V4)
    return address in _GLOBAL_V6 and not any(address in network for network in _REFUSED_V6)
