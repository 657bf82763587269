from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from hpcllm.errors import BusyError, ConfigError
from hpcllm.server import access as module
from hpcllm.server.access import COOKIE, OPEN, Access, is_loopback, refuse_exposure
from hpcllm.server.credentials import Credentials, write_credentials
from hpcllm.server.errors import AccessError

PASSWORD, STAFF = "correct horse", "battery staple"


@pytest.fixture(autouse=True)
def cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpcllm.server.credentials.SCRYPT_COST", 2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "access.json"


@pytest.fixture
def key(path: Path) -> str:
    """Set both passwords and a key; return the key."""
    held = Credentials.empty().with_password(PASSWORD, "user").with_password(STAFF, "staff")
    held, made = held.with_key("bot")
    write_credentials(path, held)
    return made


def bearer(value: str) -> dict[str, str]:
    return {"authorization": f"Bearer {value}"}


def cookie(value: str) -> dict[str, str]:
    return {"cookie": f"other=1; {COOKIE}={value}"}


class TestKeys:
    def test_a_key_lets_in_by_either_header(self, path: Path, key: str) -> None:
        access = Access(path)
        for headers in (bearer(key), {"x-api-key": key}):
            identity = access.identify(headers)
            assert (identity.kind, identity.role, identity.name) == ("key", "user", "bot")
            assert identity.owner.startswith("key:")

    def test_the_slow_hash_is_taken_once(self, path: Path, key: str) -> None:
        access = Access(path)
        assert access.needs_hash(bearer(key))
        access.identify(bearer(key))
        assert not access.needs_hash(bearer(key))

    @pytest.mark.parametrize("change", ["", "x", "hpcllm_", "hpcllm__", "hpcllm_00000000_x"])
    def test_wrong_keys(self, path: Path, key: str, change: str) -> None:
        with pytest.raises(AccessError, match=r"sign in, or send|not known"):
            Access(path).identify(bearer(change))

    def test_a_right_id_with_another_secret(self, path: Path, key: str) -> None:
        with pytest.raises(AccessError, match="this API key is not known"):
            Access(path).identify(bearer(key[:-1] + ("a" if key[-1] != "a" else "b")))

    def test_a_removed_key_is_refused_without_a_restart(self, path: Path, key: str) -> None:
        access = Access(path)
        access.identify(bearer(key))
        write_credentials(path, module.read_credentials(path).without_key("bot"))
        with pytest.raises(AccessError, match="may have been removed"):
            access.identify(bearer(key))

    def test_guessing_is_slowed_down_by_address(self, path: Path, key: str) -> None:
        access = Access(path)
        for _ in range(module.FAILURES):
            with pytest.raises(AccessError):
                access.identify(bearer("hpcllm_x_y"), "192.0.2.1")
        with pytest.raises(BusyError, match="wait 5 minutes") as caught:
            access.identify(bearer("hpcllm_x_y"), "192.0.2.1")
        assert 290 < caught.value.retry_after_s <= 300
        assert access.identify(bearer(key), "192.0.2.2").kind == "key"


class TestSessions:
    @pytest.mark.parametrize(("password", "role"), [(PASSWORD, "user"), (STAFF, "staff")])
    def test_a_password_begins_a_session(
        self, path: Path, key: str, password: str, role: str
    ) -> None:
        access = Access(path)
        first, second = (access.identify(cookie(access.sign_in(password))) for _ in range(2))
        assert (first.kind, first.role) == ("session", role)
        assert first.owner != second.owner
        assert Access(path).identify(cookie(access.sign_in(password))).kind == "session"

    def test_a_wrong_password(self, path: Path, key: str) -> None:
        with pytest.raises(AccessError, match="the password is wrong"):
            Access(path).sign_in("nope")

    def test_where_none_is_set_nothing_is_right(self) -> None:
        with pytest.raises(AccessError):
            Access().sign_in("")

    def test_a_forged_or_stale_cookie(
        self, path: Path, key: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        access = Access(path)
        value = access.sign_in(PASSWORD)
        forged = value.replace(".user.", ".staff.")
        for bad in (forged, value[:-1], "", "é", "a.b.c.d"):
            with pytest.raises(AccessError):
                access.identify(cookie(bad))
        now = time.time()
        monkeypatch.setattr(module.time, "time", lambda: now + module.SESSION_S + 1)
        with pytest.raises(AccessError):
            access.identify(cookie(value))

    def test_another_password_ends_it(self, path: Path, key: str) -> None:
        access = Access(path)
        value = access.sign_in(PASSWORD)
        write_credentials(path, module.read_credentials(path).with_password("x" * 10, "user"))
        with pytest.raises(AccessError):
            access.identify(cookie(value))


class TestOpen:
    def test_everybody_is_let_in(self, path: Path) -> None:
        access = Access(path)
        assert access.identify({}) == OPEN
        assert access.identify(bearer("anything")) == OPEN

    def test_a_key_made_later_closes_it(self, path: Path) -> None:
        access = Access(path)
        write_credentials(path, Credentials.empty().with_key("x")[0])
        with pytest.raises(AccessError):
            access.identify({})

    def test_a_file_that_goes_does_not_open_it(
        self, path: Path, key: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        access = Access(path)
        os.unlink(path)
        with pytest.raises(AccessError):
            access.identify({})
        assert "stay as they were" in caplog.text

    def test_a_file_that_is_damaged_later_changes_nothing(self, path: Path, key: str) -> None:
        access = Access(path)
        path.write_text("{")
        assert access.identify(bearer(key)).kind == "key"

    def test_a_file_that_is_damaged_from_the_start_is_an_error(self, path: Path) -> None:
        path.write_text("{")
        path.chmod(0o600)
        with pytest.raises(ConfigError, match="is damaged"):
            Access(path)


class TestExposure:
    @pytest.mark.parametrize(
        ("host", "local"),
        [
            ("127.0.0.1", True),
            ("127.8.8.8", True),
            ("::1", True),
            ("[::1]", True),
            ("localhost", True),
            ("0.0.0.0", False),
            ("::", False),
            ("192.168.1.4", False),
            ("login1", False),
            ("localhost.evil.example", False),
        ],
    )
    def test_which_addresses_only_this_machine_reaches(self, host: str, local: bool) -> None:
        assert is_loopback(host) is local

    def test_an_open_server_does_not_listen_elsewhere(self) -> None:
        with pytest.raises(ConfigError, match=r"0\.0\.0\.0.*hpcllm keys password.*127\.0\.0\.1"):
            refuse_exposure("0.0.0.0", Access())
        refuse_exposure("127.0.0.1", Access())

    def test_a_closed_one_may(self, path: Path, key: str) -> None:
        refuse_exposure("0.0.0.0", Access(path))
