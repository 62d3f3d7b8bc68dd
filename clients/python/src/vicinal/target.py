"""The address of a service, and the bytes of the requests to it."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Generic, TypeVar
from urllib.request import getproxies

import httpx

from .errors import InvalidArgumentError
from .operation import HttpRequest

Chunks_co = TypeVar("Chunks_co", covariant=True)

_JOINED_BYTES_MAX = 64 * 1024
"""Up to this size, a body is copied behind its head: a second packet takes longer."""
_TARGET = re.compile(rb"[!-~]+")
_HEADER_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[ -~]*")


@dataclass(frozen=True, slots=True)
class Streamed(Generic[Chunks_co]):
    """An answer whose body is still arriving. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    chunks: Chunks_co


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """
    Files in PEM for TLS: the authorities to trust in place of the usual ones, and a certificate with its key for a
    service that asks its clients for one.
    """

    ca_file: str | Path | None = None
    cert_file: str | Path | None = None
    key_file: str | Path | None = None

    def __post_init__(self) -> None:
        if (self.cert_file is None) != (self.key_file is None):
            raise InvalidArgumentError("cert_file and key_file need each other")


class Target:
    """
    A service at a checked address.

    :param headers: headers of every request
    :param timeout_s: applies separately to waiting for a free connection, connecting, sending and receiving a part
    """

    def __init__(self, url: str, headers: Mapping[str, str], timeout_s: float, tls: Tls | None = None) -> None:
        parsed = httpx.URL(url)
        self.url = url
        self.headers = {name.lower(): check_header(name, value) for name, value in headers.items()}
        self.timeout_s = timeout_s
        self.host = parsed.raw_host.decode("ascii")
        self.port = parsed.port or (443 if parsed.scheme == "https" else 80)
        self.ssl_context = _ssl_context(tls or Tls()) if parsed.scheme == "https" else None
        self._prefix = parsed.raw_path.rstrip(b"/")
        self._header_lines = _lines_of({"host": parsed.netloc.decode("ascii"), **self.headers})

    def parts_of(self, request: HttpRequest) -> tuple[bytes, ...]:
        """Return the bytes of a request, in the parts in which they are sent."""
        body = request.body
        target = self._prefix + request.path.encode()
        if _TARGET.fullmatch(target) is None:
            raise InvalidArgumentError(f"{request.path!r} cannot be the path of a request")
        lines = [b"%s %s HTTP/1.1\r\n" % (request.method.encode("ascii"), target), self._header_lines]
        if body is not None:
            lines.append(b"content-type: application/json\r\n")
        if body is not None or request.method not in ("GET", "DELETE"):
            lines.append(b"content-length: %d\r\n" % len(body or b""))
        if request.headers is not None:
            lines.append(_lines_of(request.headers))
        lines.append(b"\r\n")
        if body is None or len(body) > _JOINED_BYTES_MAX:
            return (b"".join(lines),) if body is None else (b"".join(lines), body)
        return (b"".join((*lines, body)),)


def no_cookies() -> CookieJar:
    """Return a jar that stays empty: httpx would send cookies back."""
    return CookieJar(DefaultCookiePolicy(allowed_domains=[]))


def needs_httpx(url: str) -> bool:
    """Whether an address needs httpx: for the environment's proxies, or for a password in the address."""
    parsed = httpx.URL(url)
    # httpx also decides which hosts bypass a proxy.
    return parsed.userinfo != b"" or not {parsed.scheme, "all"}.isdisjoint(getproxies())


def _ssl_context(tls: Tls) -> ssl.SSLContext:
    """Return the settings of TLS. Takes a while, because it reads the certificates."""
    trusted = tls.ca_file
    context = httpx.create_ssl_context() if trusted is None else ssl.create_default_context(cafile=trusted)
    if tls.cert_file is not None:
        context.load_cert_chain(tls.cert_file, tls.key_file)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _lines_of(headers: Mapping[str, str]) -> bytes:
    return b"".join(_line_of(name, value) for name, value in headers.items())


def _line_of(name: str, value: str) -> bytes:
    key = name.encode()
    if _HEADER_NAME.fullmatch(key) is None:
        raise InvalidArgumentError(f"{name!r} cannot be the name of a header")
    return b"%s: %s\r\n" % (key, check_header(name, value).encode())


def check_header(name: str, value: object) -> str:
    """Return the value of a header, or of metadata; refuse one that cannot be sent, without showing it."""
    if not isinstance(value, str):
        raise InvalidArgumentError(f"the value of the header {name} is a {type(value).__name__}: a text is needed")
    if not _HEADER_VALUE.fullmatch(value):
        raise InvalidArgumentError(f"the value of the header {name} may have only printable ASCII characters")
    return value


def authorization_of(api_key: str | None) -> dict[str, str]:
    """Return the header of a key. A file of a key ends with a line break."""
    if api_key is None:
        return {}
    return {"authorization": check_header("authorization", api_key.strip() if isinstance(api_key, str) else api_key)}
