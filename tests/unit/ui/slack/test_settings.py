from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import yaml

from hpcllm.errors import ConfigError
from hpcllm.ui.slack.app import SHORTCUT
from hpcllm.ui.slack.settings import (
    ChannelRules,
    SlackSettings,
    choose_mode,
    load_slack_settings,
    read_tokens,
)
from hpcllm.workspace import reference_root

UI = reference_root() / "ui"


def settings(text: str) -> SlackSettings:
    return SlackSettings.model_validate(tomllib.loads(text))


def test_an_absent_file_means_the_defaults(tmp_path: Path) -> None:
    loaded = load_slack_settings(tmp_path / "slack.toml")
    assert loaded.of("C1") == ChannelRules(None, "auto", "mentioned", None, "always")
    assert loaded.of("D1", is_direct=True) == ChannelRules(None, "auto", "always", None, "asked")


def test_a_channel_overrides_the_defaults_key_by_key() -> None:
    chosen = settings(
        '[defaults]\ncluster = "meridian"\nlanguage = "pt"\nstaff_channel = "C9"\n'
        '[direct]\nnotify_staff = "never"\n'
        '[channels.C1]\nname = "#gpu"\ncluster = "halley"\nanswer = "always"\n'
    )
    assert chosen.of("C1") == ChannelRules("halley", "pt", "always", "C9", "always")
    assert chosen.of("C2") == ChannelRules("meridian", "pt", "mentioned", "C9", "always")
    assert chosen.of("D2", is_direct=True) == ChannelRules(
        "meridian", "pt", "always", "C9", "never"
    )


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "slack.toml"
    path.write_text(
        'command = "hpc"\n[defaults]\nanswr = "always"\nstaff_channel = "#staff"\n'
        '[channels.general]\nlanguage = "de"\n'
    )
    with pytest.raises(ConfigError, match=r"slack\.toml has 4 problem\(s\)") as caught:
        load_slack_settings(path)
    told = str(caught.value)
    assert "defaults.answr: unknown key; did you mean 'answer'?" in told
    assert "expected a channel's id such as C0123456789, not its name" in told
    assert "command" in told
    assert "'auto', 'en' or 'pt'" in told


def test_a_channel_is_named_by_its_id() -> None:
    with pytest.raises(ValueError, match="'general' is no channel id: expected such as C0123"):
        settings('[channels.general]\nanswer = "always"\n')


@pytest.mark.parametrize(
    ("environment", "mode", "expected"),
    [
        ({}, None, "socket"),
        ({"SLACK_SIGNING_SECRET": "s"}, None, "http"),
        ({"SLACK_SIGNING_SECRET": "s", "SLACK_APP_TOKEN": "xapp-1"}, None, "socket"),
        ({"SLACK_APP_TOKEN": "xapp-1"}, "http", "http"),
    ],
)
def test_the_mode_follows_the_tokens(
    environment: dict[str, str], mode: str | None, expected: str
) -> None:
    assert choose_mode(environment, mode) == expected  # type: ignore[arg-type]


def test_tokens_do_not_show_themselves() -> None:
    tokens = read_tokens({"SLACK_BOT_TOKEN": " xoxb-1\n", "SLACK_APP_TOKEN": "xapp-2"}, "socket")
    assert "xoxb" not in repr(tokens)
    assert "xapp" not in f"{tokens}"
    assert tokens.bot.reveal() == "xoxb-1"
    assert tokens.app is not None
    assert tokens.app.reveal() == "xapp-2"
    assert tokens.signing_secret is None


def test_missing_and_wrong_tokens_are_told_with_where_to_find_them() -> None:
    with pytest.raises(ConfigError) as caught:
        read_tokens({"SLACK_BOT_TOKEN": "xapp-swapped"}, "socket")
    told = str(caught.value)
    assert "SLACK_BOT_TOKEN does not begin with xoxb-" in told
    assert "SLACK_APP_TOKEN is not set: xapp-…: the app's page, Basic Information" in told
    assert "swapped" not in told
    with pytest.raises(ConfigError, match="SLACK_SIGNING_SECRET is not set: the app's page"):
        read_tokens({"SLACK_BOT_TOKEN": "xoxb-1"}, "http")


def test_the_reference_file_and_manifest_fit_the_program() -> None:
    loaded = load_slack_settings(UI / "slack.toml")
    manifest = yaml.safe_load((UI / "slack-manifest.yaml").read_text(encoding="utf-8"))
    features = manifest["features"]
    assert [c["command"] for c in features["slash_commands"]] == [loaded.command]
    assert [s["callback_id"] for s in features["shortcuts"]] == [SHORTCUT]
    events = manifest["settings"]["event_subscriptions"]["bot_events"]
    assert events == ["app_mention", "message.channels", "message.groups", "message.im"]
    scopes = manifest["oauth_config"]["scopes"]["bot"]
    assert {"app_mentions:read", "chat:write", "commands", "im:history"} <= set(scopes)
