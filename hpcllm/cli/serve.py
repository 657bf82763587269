"""``hpcllm serve``: the HTTP server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hpcllm.cli.common import WorkspaceOption, note, open_workspace

if TYPE_CHECKING:
    import socket

    from fastapi import FastAPI

    from hpcllm.server.access import Access
    from hpcllm.workspace import Workspace

GRACE_S = 10
"""Seconds that answers in progress are given when the server is told to stop."""


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")
    ] = None,
    root_path: Annotated[
        str | None, typer.Option(help="Prefix that a proxy in front strips, such as /support.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Model of the catalog, or extractive for none.")
    ] = None,
    pages: Annotated[
        bool, typer.Option("--pages/--no-pages", help="Serve the chat page and the staff page too.")
    ] = True,
    workspace: WorkspaceOption = None,
) -> None:
    """Serve the assistant over HTTP: chat page, OpenAI-compatible and native interface.

    Example: hpcllm serve --port 8000
    """
    from hpcllm.errors import import_extra

    for name in ("uvicorn", "fastapi", "sqlalchemy", "alembic"):
        import_extra(name, "web")
    if pages:
        import_extra("nh3", "web")
    from hpcllm.server.access import refuse_exposure
    from hpcllm.server.listening import listen

    opened = open_workspace(workspace)
    settings = opened.settings.server
    access = open_access(opened)
    address = host or settings.host
    refuse_exposure(address, access)
    listener = listen(address, settings.port if port is None else port)
    app = build_app(opened, access, model=model, pages=pages)
    prefix = (settings.root_path if root_path is None else root_path).rstrip("/")
    shown = f"[{address}]" if ":" in address else address
    note(f"Serving on http://{shown}:{listener.getsockname()[1]}{prefix} (stop with Ctrl-C)")
    _run(app, listener, prefix)


def open_access(workspace: Workspace) -> Access:
    """Open the passwords and keys of a workspace."""
    from hpcllm.server.access import Access
    from hpcllm.server.credentials import CREDENTIALS_FILE

    return Access(workspace.var_dir / CREDENTIALS_FILE)


def build_app(
    workspace: Workspace, access: Access, *, model: str | None = None, pages: bool = True
) -> FastAPI:
    """Load a workspace's index and model and put the application together, with its pages."""
    from hpcllm.server.app import create_app
    from hpcllm.server.service import AssistantService
    from hpcllm.server.store import Store

    settings = workspace.settings
    store = Store.open(workspace.database)
    service = AssistantService.open(workspace, store=store, model=model)
    app = create_app(
        service,
        store,
        access=access,
        hosts=settings.server.hosts,
        body_limit=settings.server.body_limit_kb * 1024,
        name=settings.site.name,
    )
    if pages:
        from hpcllm.ui.mount import mount_pages

        mount_pages(app, service, store, workspace)
    return app


def _run(app: FastAPI, listener: socket.socket, prefix: str) -> None:
    import uvicorn

    config = uvicorn.Config(
        app,
        root_path=prefix,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    uvicorn.Server(config).run(sockets=[listener])
