"""A service as httpcore is told of it: where it is, and what every request to it carries."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypedDict, TypeVar
from urllib.request import getproxies

import httpcore
import httpx

from .operation import HttpRequest

Chunks_co = TypeVar("Chunks_co", covariant=True)

CONNECTIONS_MAX = 100
IDLE_CONNECTIONS_MAX = 20
IDLE_CONNECTION_S = 5.0
"""Shorter than any service or proxy keeps an idle connection, so that a request rarely meets a closing one."""


class _PoolLimits(TypedDict):
    max_connections: int
    max_keepalive_connections: int
    keepalive_expiry: float


POOL_LIMITS: _PoolLimits = {
    "max_connections": CONNECTIONS_MAX,
    "max_keepalive_connections": IDLE_CONNECTIONS_MAX,
    "keepalive_expiry": IDLE_CONNECTION_S,
}


@dataclass(frozen=True, slots=True)
class Streamed(Generic[Chunks_co]):
    """An answer whose body is still arriving. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    chunks: Chunks_co


class _Arguments(TypedDict):
    method: bytes
    url: httpcore.URL
    headers: list[tuple[bytes, bytes]]
    content: bytes | None
    extensions: dict[str, dict[str, float]]


class Target:
    """
    A service at a checked address.

    :param headers: what every request carries
    :param timeout_s: for each of: a free connection, connecting, sending a part, receiving a part
    """

    def __init__(self, url: str, headers: Mapping[str, str], timeout_s: float) -> None:
        parsed = httpx.URL(url)
        self.url = url
        self.headers = headers
        self.timeout_s = timeout_s
        self._scheme = parsed.raw_scheme
        self._host = parsed.raw_host
        self._port = parsed.port
        self._prefix = parsed.raw_path.rstrip(b"/")
        self._extensions = {"timeout": dict.fromkeys(("pool", "connect", "write", "read"), timeout_s)}
        host = {"host": parsed.netloc.decode("ascii")}
        self._headers = _encoded({**host, **{name.lower(): value for name, value in headers.items()}})

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return what TLS trusts; None for an address without TLS, because reading the certificates takes a while."""
        return httpx.create_ssl_context() if self._scheme == b"https" else None

    def arguments(self, request: HttpRequest) -> _Arguments:
        """Return a request as httpcore takes it."""
        headers = self._headers.copy()
        if request.body is not None:
            headers.append((b"content-type", b"application/json"))
        if request.body is not None or request.method not in ("GET", "DELETE"):
            headers.append((b"content-length", b"%d" % len(request.body or b"")))
        if request.headers is not None:
            headers += _encoded(request.headers)
        path = self._prefix + request.path.encode("ascii")
        return {
            "method": request.method.encode("ascii"),
            "url": httpcore.URL(scheme=self._scheme, host=self._host, port=self._port, target=path),
            "headers": headers,
            "content": request.body,
            "extensions": self._extensions,
        }


def needs_httpx(url: str) -> bool:
    """Whether an address needs what httpx knows: the environment's proxies, or a password in the address."""
    parsed = httpx.URL(url)
    # Which hosts are excepted from a proxy is httpx's to say as well.
    return parsed.userinfo != b"" or not {parsed.scheme, "all"}.isdisjoint(getproxies())


def headers_of_answer(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers of an answer by name, in lower case."""
    return {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in headers}


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]
