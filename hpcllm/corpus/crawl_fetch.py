"""Fetch single addresses from servers that may misbehave.

Role: the only part of the crawler that talks to the network. Every limit holds per request: time
in all (a server that sends a byte a second is cut off), bytes sent, bytes once unpacked. Names are
looked up here and the connection goes to the very address that was checked, so that a name cannot
point elsewhere a moment later.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import ssl
import time
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpcore
import httpx

from hpcllm.errors import HpcLlmError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType
    from typing import Self

logger = logging.getLogger(__name__)

SENT_FACTOR = 2
"""Bytes on the wire past this many times the limit end a request, whatever they unpack to."""
NAT64 = ipaddress.ip_network("64:ff9b::/96")


class FetchError(HpcLlmError):
    """An address could not be fetched.

    Attributes:
        passing: whether another try later may succeed; what was fetched before is then kept.
    """

    def __init__(self, message: str, *, passing: bool) -> None:
        self.passing = passing
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What one request may take.

    Attributes:
        seconds: in all, from looking up the name to the last byte.
        stall_s: without any byte.
        bytes: of a body, unpacked.
        allow_private: whether addresses that are not public may be connected to.
    """

    seconds: float = 30.0
    stall_s: float = 10.0
    bytes: int = 20_000_000
    allow_private: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered.

    Attributes:
        url: the address asked for.
        status: HTTP status.
        headers: by lower-case name.
        body: unpacked content; empty where it was not wanted or there is none.
    """

    url: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def content_type(self) -> str:
        """Media type in lower case without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Fetcher:
    """A client for one site; not for several threads.

    Args:
        limits: what a request may take.
        agent: how the crawler names itself.
    """

    def __init__(self, limits: FetchLimits, agent: str) -> None:
        self.limits = limits
        self._backend = _CheckedBackend(limits.allow_private)
        self._client = httpx.Client(
            transport=_transport(self._backend),
            headers={
                "User-Agent": agent,
                "Accept": "text/html,application/xhtml+xml,text/plain,application/pdf;q=0.8",
                "Accept-Encoding": "gzip, deflate",
            },
            timeout=httpx.Timeout(limits.stall_s),
            follow_redirects=False,
            trust_env=False,
        )

    def get(
        self,
        url: str,
        *,
        etag: str = "",
        modified: str = "",
        wanted: Callable[[str], bool] = lambda _: True,
    ) -> Reply:
        """Fetch one address; redirects are answers like any other.

        Args:
            url: canonical address.
            etag: what the server called the version at hand, or empty.
            modified: its ``Last-Modified`` for the version at hand, or empty.
            wanted: asked with the content type; the body is left where it says no.

        Raises:
            FetchError: no answer, or one past the limits.
        """
        headers = {"If-None-Match": etag} if etag else {}
        if modified:
            headers["If-Modified-Since"] = modified
        self._backend.deadline = time.monotonic() + self.limits.seconds
        try:
            with self._client.stream("GET", url, headers=headers) as response:
                return self._reply(url, response, wanted)
        except httpx.TimeoutException as exc:
            raise FetchError(
                f"took longer than {self.limits.seconds:g} s, or stalled", passing=True
            ) from exc
        except httpx.DecodingError as exc:
            raise FetchError(f"cannot be unpacked ({exc})", passing=False) from exc
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as exc:
            raise FetchError(f"cannot be fetched ({_reason(exc)})", passing=True) from exc

    def _reply(self, url: str, response: httpx.Response, wanted: Callable[[str], bool]) -> Reply:
        headers = {name.lower(): value for name, value in response.headers.items()}
        reply = Reply(url, response.status_code, headers)
        if response.status_code != 200 or not wanted(reply.content_type):
            return reply
        declared = headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > self.limits.bytes:
            raise FetchError(_too_long(int(declared), self.limits.bytes), passing=False)
        encoding = headers.get("content-encoding", "").strip().lower()
        body = unpacked(response.iter_raw(), encoding, self.limits.bytes)
        return Reply(url, reply.status, headers, body)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _reason(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _too_long(size: int, limit: int) -> str:
    return (
        f"is larger than {limit / 1e6:g} MB ({size / 1e6:.1f} MB or more): exclude it, or raise "
        "size_limit_mb of the source"
    )


def unpacked(pieces: Iterable[bytes], encoding: str, limit: int) -> bytes:
    """Join the pieces of a body and unpack them, never past ``limit`` bytes.

    Args:
        pieces: the body as sent.
        encoding: ``Content-Encoding``: empty, ``identity``, ``gzip``, ``x-gzip`` or ``deflate``.
        limit: most bytes of the result.

    Raises:
        FetchError: the body is longer, of another encoding, or damaged.
    """
    if encoding in ("", "identity"):
        unpacker = None
    elif encoding in ("gzip", "x-gzip", "deflate"):
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)  # either form, by its first bytes
    else:
        raise FetchError(
            f"is sent with the encoding {encoding!r}, which was not asked for", passing=False
        )
    body = bytearray()
    sent = 0
    try:
        for piece in pieces:
            sent += len(piece)
            body += unpacker.decompress(piece, limit + 1 - len(body)) if unpacker else piece
            if len(body) > limit or sent > SENT_FACTOR * limit:
                raise FetchError(_too_long(max(len(body), sent), limit), passing=False)
    except zlib.error as exc:
        raise FetchError(f"cannot be unpacked ({exc})", passing=False) from exc
    if unpacker is not None and sent and not unpacker.eof:
        raise FetchError("ended before it was complete", passing=True)
    return bytes(body)


def _transport(backend: httpcore.NetworkBackend) -> httpx.HTTPTransport:
    """Return a transport whose connections are made by ``backend``."""
    transport = httpx.HTTPTransport(trust_env=False)
    transport.close()
    # httpx offers no argument for the network backend; its pool is the one place to put it.
    transport._pool = httpcore.ConnectionPool(
        ssl_context=ssl.create_default_context(), network_backend=backend, keepalive_expiry=5.0
    )
    return transport


class _CheckedBackend(httpcore.NetworkBackend):
    """Connects to addresses that were checked, until a deadline."""

    def __init__(self, allow_private: bool) -> None:
        self.allow_private = allow_private
        self.deadline = float("inf")
        self._inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.NetworkStream:
        error: httpcore.ConnectError | httpcore.ConnectTimeout | None = None
        for address in self._addresses(host, port):
            try:
                stream = self._inner.connect_tcp(
                    address, port, left(self.deadline, timeout), local_address, socket_options
                )
                return _TimedStream(stream, self)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as exc:
                error = exc
        raise error or httpcore.ConnectError(f"{host} has no address")

    def _addresses(self, host: str, port: int) -> list[str]:
        try:
            found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as exc:
            raise httpcore.ConnectError(f"the name {host} cannot be looked up: {exc}") from exc
        addresses = list(dict.fromkeys(str(item[4][0]) for item in found))
        if self.allow_private:
            return addresses
        public = [address for address in addresses if is_public(address)]
        if not public:
            raise httpcore.ConnectError(
                f"{host} has a private address ({addresses[0]}): set allow_private = true if this "
                "site lies inside your network"
            )
        return public


def is_public(address: str) -> bool:
    """Say whether an IP address is one of the public Internet.

    >>> is_public("192.0.43.8"), is_public("10.1.2.3"), is_public("::ffff:127.0.0.1")
    (True, False, False)
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        inner = parsed.ipv4_mapped or parsed.sixtofour
        if parsed in NAT64:
            inner = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
        if inner is not None:
            return inner.is_global and not inner.is_multicast
    return parsed.is_global and not parsed.is_multicast


def left(deadline: float, timeout: float | None) -> float:
    """Return the seconds that may pass until ``deadline``, at most ``timeout``."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise httpcore.ReadTimeout("the time for this request is over")
    return remaining if timeout is None else min(remaining, timeout)


class _TimedStream(httpcore.NetworkStream):
    """A connection whose reads and writes end at the deadline of the request in progress."""

    def __init__(self, inner: httpcore.NetworkStream, backend: _CheckedBackend) -> None:
        self._inner = inner
        self._backend = backend

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, left(self._backend.deadline, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, left(self._backend.deadline, timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        stream = self._inner.start_tls(
            ssl_context, server_hostname, left(self._backend.deadline, timeout)
        )
        return _TimedStream(stream, self._backend)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
