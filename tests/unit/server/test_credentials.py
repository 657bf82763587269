from __future__ import annotations

import stat
from pathlib import Path

import pytest

from hpcllm.errors import ConfigError
from hpcllm.server.credentials import Credentials, Hashed, read_credentials, write_credentials

PASSWORD = "correct horse"


def test_a_hash_matches_its_secret_alone_and_does_not_hold_it() -> None:
    hashed = Hashed.of(PASSWORD)
    assert hashed.matches(PASSWORD)
    assert not hashed.matches(PASSWORD + " ")
    assert PASSWORD not in hashed.model_dump_json()
    assert Hashed.of(PASSWORD).hash != hashed.hash  # salted


def test_they_survive_being_written(tmp_path: Path) -> None:
    path = tmp_path / "var" / "access.json"
    held, key = Credentials.empty().with_password(PASSWORD, "staff").with_key("open webui")
    write_credentials(path, held)
    assert read_credentials(path) == held
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    written = path.read_text()
    assert PASSWORD not in written
    assert key.split("_", 2)[2] not in written


def test_without_a_file_nobody_is_asked(tmp_path: Path) -> None:
    assert read_credentials(tmp_path / "access.json").is_open


def test_a_staff_password_alone_closes_nothing_to_users() -> None:
    assert Credentials.empty().with_password(PASSWORD, "staff").is_open
    assert not Credentials.empty().with_password(PASSWORD, "user").is_open
    assert not Credentials.empty().with_key("x")[0].is_open


def test_another_password_ends_all_sessions() -> None:
    first = Credentials.empty().with_password(PASSWORD, "user")
    assert first.with_password(None, "user").session_key != first.session_key


def test_a_key_is_removed_by_name_or_id() -> None:
    held, _ = Credentials.empty().with_key("a")
    held, _ = held.with_key("b")
    assert [key.name for key in held.without_key("a").keys] == ["b"]
    assert held.without_key(held.keys[1].id).keys == held.keys[:1]
    with pytest.raises(ConfigError, match=r"no key named 'c'. Keys: a, b"):
        held.without_key("c")


@pytest.mark.parametrize("name", ["", "x" * 101, "a\nb"])
def test_names_that_no_key_can_have(name: str) -> None:
    with pytest.raises(ConfigError, match="1 to 100 printable characters"):
        Credentials.empty().with_key(name)


def test_a_name_is_taken_once() -> None:
    held, _ = Credentials.empty().with_key("a")
    with pytest.raises(ConfigError, match="already: remove it first"):
        held.with_key("a")


def test_a_short_password() -> None:
    with pytest.raises(ConfigError, match="has 5 characters, expected at least 10"):
        Credentials.empty().with_password("12345", "user")


def test_a_file_that_others_may_read(tmp_path: Path) -> None:
    path = tmp_path / "access.json"
    write_credentials(path, Credentials.empty())
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_credentials(path)


@pytest.mark.parametrize("text", ["{", "[]", '{"session_key": "00", "x": 1}'])
def test_a_damaged_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "access.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=r"is damaged .* hpcllm keys"):
        read_credentials(path)
