"""What a site decides about its bot (``ui/slack.toml``) and the tokens that Slack issued.

Role: read once at the start; all problems are told at once. Tokens come from the environment alone
and never show themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import Field, ValidationError, field_validator

from hpcllm.errors import ConfigError
from hpcllm.models.backends.openai_api import Secret
from hpcllm.workspace import Section, problems_of, read_toml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SETTINGS_FILE = "slack.toml"
BOT_TOKEN = "SLACK_BOT_TOKEN"
APP_TOKEN = "SLACK_APP_TOKEN"
SIGNING_SECRET = "SLACK_SIGNING_SECRET"

Mode = Literal["socket", "http"]
Language = Literal["auto", "en", "pt"]
When = Literal["mentioned", "always", "never"]
Notify = Literal["always", "asked", "never"]

_CHANNEL_ID = re.compile(r"[CGD][A-Z0-9]+")
_REMEDY = {
    BOT_TOKEN: "xoxb-…: the app's page, OAuth & Permissions, Bot User OAuth Token",
    APP_TOKEN: "xapp-…: the app's page, Basic Information, App-Level Tokens, with the scope "
    "connections:write",
    SIGNING_SECRET: "the app's page, Basic Information, App Credentials, Signing Secret",
}
_PREFIXES = {BOT_TOKEN: "xoxb-", APP_TOKEN: "xapp-"}


def _channel_id(value: str | None) -> str | None:
    if value is not None and not _CHANNEL_ID.fullmatch(value):
        raise ValueError(
            "expected a channel's id such as C0123456789, not its name (Slack shows it at the end "
            "of the channel's details)"
        )
    return value


class Channel(Section):
    """Decisions for one channel; what is left out is as in ``[defaults]``."""

    name: str = ""
    """For whoever reads the file; the bot does not use it."""
    cluster: str | None = None
    """Cluster assumed when a question names none; left out everywhere: the site's own."""
    language: Language | None = None
    """Language of the bot's own sentences; ``auto`` follows each question."""
    answer: When | None = None
    """``mentioned`` answers mentions, ``always`` every message of a person, ``never`` nothing."""
    staff_channel: str | None = None
    """Id of the channel that is told of questions that the documentation does not answer."""
    notify_staff: Notify | None = None
    """``always`` tells staff at once, ``asked`` when the user presses a button, ``never``."""

    _is_id = field_validator("staff_channel")(_channel_id)


class SlackSettings(Section):
    """The content of ``ui/slack.toml``."""

    command: str = Field("/hpc", pattern=r"^/[a-z0-9_-]{1,31}$")
    """The slash command, as in the app's manifest."""
    api_url: str = Field("https://slack.com/api/", pattern=r"^https?://.+/api/$")
    """Where Slack's Web API is; GovSlack has an address of its own."""
    defaults: Channel = Channel()
    """For all channels."""
    direct: Channel = Channel()
    """For direct messages; a person's question goes to staff only if they say so."""
    channels: dict[str, Channel] = Field(default_factory=dict)
    """By channel id."""

    @field_validator("channels")
    @classmethod
    def _are_ids(cls, value: dict[str, Channel]) -> dict[str, Channel]:
        for name in value:
            if not _CHANNEL_ID.fullmatch(name):
                raise ValueError(
                    f"{name!r} is no channel id: expected such as C0123456789 (Slack shows it at "
                    "the end of the channel's details)"
                )
        return value

    def of(self, channel: str, *, is_direct: bool = False) -> ChannelRules:
        """Return what holds in a channel.

        Args:
            channel: its id.
            is_direct: whether it is a direct message to the bot.
        """
        own = self.channels.get(channel, self.direct if is_direct else Channel())
        notify = own.notify_staff or self.defaults.notify_staff
        return ChannelRules(
            cluster=own.cluster or self.defaults.cluster,
            language=own.language or self.defaults.language or "auto",
            answer=own.answer or ("always" if is_direct else self.defaults.answer or "mentioned"),
            staff_channel=own.staff_channel or self.defaults.staff_channel,
            notify_staff=(own.notify_staff or "asked") if is_direct else notify or "always",
        )


@dataclass(frozen=True, slots=True)
class ChannelRules:
    """What holds in one channel; see :class:`Channel`."""

    cluster: str | None = None
    language: Language = "auto"
    answer: When = "mentioned"
    staff_channel: str | None = None
    notify_staff: Notify = "always"


def load_slack_settings(path: Path) -> SlackSettings:
    """Read ``ui/slack.toml``; an absent file means the defaults.

    Raises:
        ConfigError: the file cannot be read, or any key or value is wrong (all are listed).
    """
    if not path.exists():
        return SlackSettings()
    try:
        return SlackSettings.model_validate(read_toml(path))
    except ValidationError as exc:
        raise ConfigError(
            f"{path} has {exc.error_count()} problem(s):", list(problems_of(exc, SlackSettings))
        ) from exc


@dataclass(frozen=True, slots=True)
class Tokens:
    """What Slack issued for the app.

    Attributes:
        bot: bot token.
        app: app-level token; None in HTTP mode.
        signing_secret: secret that requests are signed with; None in Socket Mode.
    """

    bot: Secret
    app: Secret | None = None
    signing_secret: Secret | None = None


def choose_mode(environment: Mapping[str, str], mode: Mode | None) -> Mode:
    """Return ``mode``, or Socket Mode where its token is set or no signing secret is."""
    if mode is not None:
        return mode
    return "socket" if environment.get(APP_TOKEN) or not environment.get(SIGNING_SECRET) else "http"


def read_tokens(environment: Mapping[str, str], mode: Mode) -> Tokens:
    """Read the tokens that a mode needs.

    Args:
        environment: variables to read.
        mode: how Slack reaches the bot.

    Raises:
        ConfigError: some are missing or are of the wrong kind; all are listed, none is shown.
    """
    needed = (BOT_TOKEN, APP_TOKEN if mode == "socket" else SIGNING_SECRET)
    found = {name: environment.get(name, "").strip() for name in needed}
    problems = [
        f"{name} is not set: {_REMEDY[name]}"
        if not value
        else f"{name} does not begin with {_PREFIXES[name]}: {_REMEDY[name]}"
        for name, value in found.items()
        if not value.startswith(_PREFIXES.get(name, "")) or not value
    ]
    if problems:
        raise ConfigError(
            f"the Slack bot needs {' and '.join(needed)} in the environment for its {mode} mode "
            "(docs/slack.md):",
            problems,
        )
    second = Secret(found[needed[1]])
    if mode == "socket":
        return Tokens(Secret(found[BOT_TOKEN]), app=second)
    return Tokens(Secret(found[BOT_TOKEN]), signing_secret=second)
