"""The file of passwords and API keys: hashed, readable by its owner alone.

Role: written by ``hpcllm keys``, read by the server. Nothing in it lets anyone in who reads it,
but the key that signs sessions does, hence its permissions. Keys have the form
``hpcllm_<id>_<secret>``; the secret is shown once, when it is made.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from hpcllm.errors import ConfigError
from hpcllm.index.files import write_atomically

if TYPE_CHECKING:
    from typing import Self

CREDENTIALS_FILE = "access.json"
KEY_PREFIX = "hpcllm"
SCRYPT_COST = 2**14
"""Work of one hash: 16 MiB of memory and about 50 ms. Higher slows guessing and signing in."""
MINIMUM_PASSWORD = 10
"""Shortest password in characters."""
NAME_CHARACTERS = 100
"""Longest name of a key."""

Role = Literal["user", "staff"]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Hashed(_Record):
    """A secret that can be compared with and not read: hex digits of salt and hash."""

    salt: str
    hash: str

    @classmethod
    def of(cls, secret: str) -> Self:
        """Hash a secret with a salt of its own."""
        salt = secrets.token_bytes(16)
        return cls(salt=salt.hex(), hash=_scrypt(secret, salt).hex())

    def matches(self, secret: str) -> bool:
        """Compare in constant time."""
        found = _scrypt(secret, bytes.fromhex(self.salt))
        return hmac.compare_digest(found, bytes.fromhex(self.hash))


class ApiKey(_Record):
    """An API key without its secret."""

    id: str
    name: str
    secret: Hashed
    created: str


class Credentials(_Record):
    """All that lets somebody in.

    Attributes:
        session_key: signs session cookies; another one ends all sessions.
        user_password: the shared password of users, or None.
        staff_password: the one of staff, or None.
        keys: API keys.
    """

    session_key: str
    user_password: Hashed | None = None
    staff_password: Hashed | None = None
    keys: tuple[ApiKey, ...] = ()

    @classmethod
    def empty(cls) -> Self:
        """Return credentials that let nobody in."""
        return cls(session_key=secrets.token_hex(32))

    @property
    def is_open(self) -> bool:
        """Whether nobody is asked who they are; pages for staff are closed all the same."""
        return self.user_password is None and not self.keys

    def with_password(self, password: str | None, role: Role) -> Self:
        """Return a copy with another password; all sessions end.

        Raises:
            ConfigError: it is too short.
        """
        if password is not None and len(password) < MINIMUM_PASSWORD:
            raise ConfigError(
                f"the password has {len(password)} characters, expected at least "
                f"{MINIMUM_PASSWORD}: take a longer one"
            )
        hashed = None if password is None else Hashed.of(password)
        update = {f"{role}_password": hashed, "session_key": secrets.token_hex(32)}
        return self.model_copy(update=update)

    def with_key(self, name: str) -> tuple[Self, str]:
        """Return a copy with a new key, and the key itself, which is kept nowhere.

        Raises:
            ConfigError: the name is empty, too long or taken.
        """
        if not 0 < len(name) <= NAME_CHARACTERS or not name.isprintable():
            raise ConfigError(
                f"a key's name has 1 to {NAME_CHARACTERS} printable characters, got {name!r}"
            )
        if any(key.name == name for key in self.keys):
            raise ConfigError(f"there is a key named {name!r} already: remove it first")
        key_id, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        key = ApiKey(id=key_id, name=name, secret=Hashed.of(secret), created=created)
        copy = self.model_copy(update={"keys": (*self.keys, key)})
        return copy, f"{KEY_PREFIX}_{key_id}_{secret}"

    def without_key(self, name: str) -> Self:
        """Return a copy without the key of that name or id.

        Raises:
            ConfigError: there is none.
        """
        kept = tuple(key for key in self.keys if name not in (key.name, key.id))
        if len(kept) == len(self.keys):
            known = ", ".join(key.name for key in self.keys) or "none"
            raise ConfigError(f"there is no key named {name!r}. Keys: {known}")
        return self.model_copy(update={"keys": kept})


def read_credentials(path: Path) -> Credentials:
    """Read the file; where there is none, nobody is let in and nobody needs to be.

    Raises:
        ConfigError: it is damaged, or others may read it.
    """
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Credentials.empty()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path} cannot be read: {exc}") from exc
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"{path} may be read by others; take that away with: chmod 600 {path}")
    try:
        # JSON has no tuples: validated as JSON, in which strictness allows for that.
        return Credentials.model_validate_json(text)
    except ValidationError as exc:
        raise ConfigError(
            f"{path} is damaged ({exc.error_count()} problems): restore it, or delete it and set "
            "password and keys again with: hpcllm keys"
        ) from exc


def write_credentials(path: Path, credentials: Credentials) -> None:
    """Replace the file in one step.

    Raises:
        ConfigError: it cannot be written.
    """
    text = json.dumps(credentials.model_dump(), indent=2) + "\n"
    previous = os.umask(0o077)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
        path.chmod(0o600)
    except OSError as exc:
        raise ConfigError(f"{path} cannot be written: {exc.strerror}") from exc
    finally:
        os.umask(previous)


def _scrypt(secret: str, salt: bytes) -> bytes:
    return hashlib.scrypt(secret.encode(), salt=salt, n=SCRYPT_COST, r=8, p=1, dklen=32)
