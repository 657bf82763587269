"""Who is calling: nobody in particular, a key, or a session that a shared password began.

Role: answers the gate's questions. Sessions are signed cookies, so that nothing is kept of them and
they outlive a restart; another password ends them all. Issuing keys by directory login, quotas and
roles beyond staff can be added behind :meth:`Access.identify` without touching the routes.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import secrets
import threading
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hpcllm.errors import BusyError, ConfigError
from hpcllm.server.credentials import KEY_PREFIX, Credentials, read_credentials
from hpcllm.server.errors import AccessError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hpcllm.server.credentials import Role

logger = logging.getLogger(__name__)

COOKIE = "hpcllm_session"
SESSION_S = 12 * 3600
"""Seconds after which one signs in again."""
FAILURES = 10
"""Wrong passwords or keys from one address within :data:`FAILURE_SPAN_S` before it must wait."""
FAILURE_SPAN_S = 300.0
ADDRESSES = 10_000
"""Addresses whose failures are remembered."""
KNOWN_KEYS = 1_000
"""Keys whose hash is remembered as right, since comparing with scrypt takes 50 ms."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who is calling.

    Attributes:
        kind: ``open`` where nobody is asked, ``key`` or ``session``.
        role: what they may do.
        owner: opaque name for what they leave behind; empty where nobody is asked.
        name: name of the key, or empty.
    """

    kind: Literal["open", "key", "session"]
    role: Role
    owner: str = ""
    name: str = ""


OPEN = Identity("open", "user")


class Access:
    """Decides who is calling. Thread-safe.

    Args:
        path: the file of credentials, read again whenever it changes; None lets everybody in.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._credentials = Credentials.empty()
        self._known: OrderedDict[bytes, str] = OrderedDict()
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()
        self._hashing = threading.Semaphore(2)
        self.reload()

    def reload(self) -> None:
        """Read the credentials again where the file has changed.

        Raises:
            ConfigError: the file cannot be used, and none could before.
        """
        if self._path is None:
            return
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        try:
            credentials = read_credentials(self._path)
        except ConfigError as exc:
            if self._stamp is None:
                raise
            logger.error("password and keys stay as they were: %s", exc)
        else:
            with self._lock:
                # A file that is gone must not open a server that was closed.
                if stamp is None and not self._credentials.is_open:
                    logger.error("%s is gone: password and keys stay as they were", self._path)
                else:
                    self._credentials = credentials
                self._known.clear()
        self._stamp = stamp

    @property
    def is_open(self) -> bool:
        """Whether nobody is asked who they are."""
        return self._credentials.is_open

    @property
    def has_password(self) -> bool:
        """Whether one can sign in at all."""
        held = self._credentials
        return held.user_password is not None or held.staff_password is not None

    @property
    def has_staff_password(self) -> bool:
        """Whether staff have a password of their own."""
        return self._credentials.staff_password is not None

    def identify(self, headers: Mapping[str, str], address: str = "") -> Identity:
        """Return who is calling.

        Args:
            headers: the request's, with lower-case names.
            address: where from, to slow down guessing.

        Raises:
            AccessError: nothing, or nothing valid, says who.
            BusyError: too many wrong keys came from that address.
        """
        self.reload()
        session = self._session(headers.get("cookie", ""))
        if session is not None:
            return session
        given = _key_in(headers)
        if self.is_open:
            return OPEN
        if not given:
            raise AccessError(
                "sign in, or send an API key as: Authorization: Bearer hpcllm_… (keys are made "
                "with: hpcllm keys add NAME)"
            )
        return self._by_key(given, address)

    def needs_hash(self, headers: Mapping[str, str]) -> bool:
        """Whether :meth:`identify` may take long, and belongs in a thread."""
        given = _key_in(headers)
        return bool(given) and _digest(given) not in self._known

    def _by_key(self, given: str, address: str) -> Identity:
        key_id = given.split("_")[1] if given.startswith(f"{KEY_PREFIX}_") else ""
        key = next((key for key in self._credentials.keys if key.id == key_id), None)
        digest = _digest(given)
        if key is None or self._known.get(digest) != key.id:
            self._refuse_guessing(address)
            secret = given.partition("_")[2].partition("_")[2]
            if key is None or not self._hash_matches(key.secret.matches, secret):
                self._note_failure(address)
                raise AccessError(
                    "this API key is not known: it may have been removed; ask for a new one"
                )
            with self._lock:
                self._known[digest] = key.id
                while len(self._known) > KNOWN_KEYS:
                    self._known.popitem(last=False)
        return Identity("key", "user", f"key:{key.id}", key.name)

    def sign_in(self, password: str, address: str = "") -> str:
        """Return the value of a new session's cookie.

        Args:
            password: what was typed.
            address: where from.

        Raises:
            AccessError: it is wrong.
            BusyError: too many wrong ones came from that address.
        """
        self.reload()
        self._refuse_guessing(address)
        held = self._credentials
        # Both are compared each time, so that the time taken tells nothing.
        is_staff = bool(held.staff_password) and self._hash_matches(
            held.staff_password.matches if held.staff_password else None, password
        )
        is_user = bool(held.user_password) and self._hash_matches(
            held.user_password.matches if held.user_password else None, password
        )
        if not is_staff and not is_user:
            self._note_failure(address)
            raise AccessError("the password is wrong")
        role = "staff" if is_staff else "user"
        body = f"{secrets.token_hex(12)}.{role}.{int(time.time()) + SESSION_S}"
        return f"{body}.{self._signature(body)}"

    def _hash_matches(self, compare: object, secret: str) -> bool:
        with self._hashing:  # each takes 16 MiB
            return bool(callable(compare) and compare(secret))

    def _session(self, cookie_header: str) -> Identity | None:
        if COOKIE not in cookie_header:
            return None
        try:
            morsel = SimpleCookie(cookie_header).get(COOKIE)
        except CookieError:
            return None
        body, _, signature = (morsel.value if morsel else "").rpartition(".")
        expected = self._signature(body)
        if not hmac.compare_digest(signature.encode(), expected.encode()):
            return None
        session_id, role, until = body.split(".")
        if int(until) < time.time():
            return None
        return Identity("session", "staff" if role == "staff" else "user", f"session:{session_id}")

    def _signature(self, body: str) -> str:
        key = bytes.fromhex(self._credentials.session_key)
        return hmac.new(key, body.encode(), hashlib.sha256).hexdigest()

    def _refuse_guessing(self, address: str) -> None:
        with self._lock:
            failures = self._failures.get(address)
            while failures and failures[0] < time.monotonic() - FAILURE_SPAN_S:
                failures.popleft()
            if failures and len(failures) >= FAILURES:
                wait_s = failures[0] + FAILURE_SPAN_S - time.monotonic()
                raise BusyError(
                    f"too many wrong passwords or keys: wait {wait_s / 60:.0f} minutes",
                    retry_after_s=max(1.0, wait_s),
                )

    def _note_failure(self, address: str) -> None:
        with self._lock:
            self._failures.setdefault(address, deque(maxlen=FAILURES)).append(time.monotonic())
            self._failures.move_to_end(address)
            while len(self._failures) > ADDRESSES:
                self._failures.popitem(last=False)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a server on ``host``."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def refuse_exposure(host: str, access: Access) -> None:
    """Raise ConfigError where others could reach a server that lets everybody in."""
    if is_loopback(host) or not access.is_open:
        return
    raise ConfigError(
        f"the server would listen on {host}, where others can reach it, and neither a password nor "
        "a key is set. Set one with: hpcllm keys password (people) or hpcllm keys add NAME "
        "(programs); or listen on 127.0.0.1"
    )


def _key_in(headers: Mapping[str, str]) -> str:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
