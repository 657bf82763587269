"""``hpcllm slack``: the Slack bot."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hpcllm.cli.common import WorkspaceOption, note, open_workspace

if TYPE_CHECKING:
    from hpcllm.server.store import Store
    from hpcllm.ui.slack.bot import Bot
    from hpcllm.ui.slack.settings import Tokens
    from hpcllm.workspace import Workspace


def slack(
    mode: Annotated[
        Literal["socket", "http"] | None,
        typer.Option(help="How Slack reaches the bot. Default: by the tokens that are set."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on, in HTTP mode.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port in HTTP mode; 0 takes a free one.")
    ] = 3000,
    model: Annotated[
        str | None, typer.Option(help="Model of the catalog, or extractive for none.")
    ] = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Answer questions in Slack.

    Reads SLACK_BOT_TOKEN and SLACK_APP_TOKEN (Socket Mode) or SLACK_SIGNING_SECRET (HTTP mode)
    from the environment and ui/slack.toml from the workspace; docs/slack.md tells how to get them.

    Example: hpcllm slack --mode socket
    """
    from hpcllm.errors import import_extra

    for name in ("sqlalchemy", "alembic", "slack_bolt", "aiohttp"):
        import_extra(name, "slack")
    from hpcllm.ui.slack.settings import choose_mode, read_tokens

    opened = open_workspace(workspace)
    chosen = choose_mode(os.environ, mode)
    tokens = read_tokens(os.environ, chosen)
    for name in [name for name in os.environ if name.startswith("SLACK_")]:
        del os.environ[name]  # neither Bolt nor a child process is to find them
    _run(opened, tokens, chosen, host, port, model)


def _run(
    workspace: Workspace, tokens: Tokens, mode: str, host: str, port: int, model: str | None
) -> None:
    from filelock import FileLock, Timeout

    from hpcllm.errors import ConfigError
    from hpcllm.server.listening import listen
    from hpcllm.server.store import Store
    from hpcllm.ui.slack.running import serve_http, serve_socket

    workspace.var_dir.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(workspace.var_dir / "slack.lock", timeout=0):
            listener = listen(host, port) if mode == "http" else None
            with Store.open(workspace.database) as store:
                bot = build_bot(workspace, store, tokens, model=model)
                if listener is None:
                    note("Connecting to Slack by Socket Mode (stop with Ctrl-C)")
                    asyncio.run(serve_socket(bot, tokens))
                else:
                    note(f"Listening on {host}:{listener.getsockname()[1]} (stop with Ctrl-C)")
                    asyncio.run(serve_http(bot, tokens, listener))
    except Timeout as exc:
        raise ConfigError(
            f"another bot of this workspace is running (it holds {exc.lock_file}): stop it first, "
            "two of them would answer twice"
        ) from exc


def build_bot(
    workspace: Workspace, store: Store, tokens: Tokens, *, model: str | None = None
) -> Bot:
    """Load index, model and ``ui/slack.toml`` of a workspace and put the bot together."""
    from hpcllm.server.service import AssistantService
    from hpcllm.ui.slack.bot import Bot
    from hpcllm.ui.slack.outbox import Outbox
    from hpcllm.ui.slack.settings import SETTINGS_FILE, load_slack_settings

    settings = load_slack_settings(workspace.ui_dir / SETTINGS_FILE)
    service = AssistantService.open(workspace, store=store, model=model)
    outbox = Outbox(tokens.bot, api_url=settings.api_url)
    return Bot(service, store, outbox, settings, language=workspace.settings.site.language)
