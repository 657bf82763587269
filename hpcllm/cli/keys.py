"""``hpcllm keys``: the passwords and API keys of a server."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from hpcllm.cli.common import JsonOption, WorkspaceOption, note, open_workspace, print_json

if TYPE_CHECKING:
    from pathlib import Path

app = typer.Typer(help="Passwords and API keys of the server.", no_args_is_help=True)


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Who or what will use it.")],
    workspace: WorkspaceOption = None,
) -> None:
    """Make an API key and print it; it is shown only this once.

    Example: hpcllm keys add "open-webui"
    """
    from hpcllm.server.credentials import read_credentials, write_credentials

    path = _path(workspace)
    credentials, key = read_credentials(path).with_key(name)
    write_credentials(path, credentials)
    typer.echo(key)
    note(f"Keep it: only its hash is stored, in {path}")


@app.command("list")
def list_keys(json_output: JsonOption = False, workspace: WorkspaceOption = None) -> None:
    """List the keys without their secrets, and which passwords are set."""
    from hpcllm.server.credentials import read_credentials

    held = read_credentials(_path(workspace))
    if json_output:
        keys = [{"id": key.id, "name": key.name, "created": key.created} for key in held.keys]
        user, staff = held.user_password is not None, held.staff_password is not None
        print_json({"keys": keys, "password": user, "staff_password": staff})
        return
    for key in held.keys:
        typer.echo(f"{key.id}  {key.created}  {key.name}")
    note(f"password: {'set' if held.user_password else 'not set'}")
    note(f"staff password: {'set' if held.staff_password else 'not set'}")


@app.command("remove")
def remove(
    name: Annotated[str, typer.Argument(help="Name or id of the key.")],
    workspace: WorkspaceOption = None,
) -> None:
    """Remove an API key; a running server refuses it from then on."""
    from hpcllm.server.credentials import read_credentials, write_credentials

    path = _path(workspace)
    write_credentials(path, read_credentials(path).without_key(name))


@app.command("password")
def password(
    staff: Annotated[bool, typer.Option("--staff", help="The one of the staff pages.")] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Take it away.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Set the shared password, typed twice or read from standard input; all sessions end."""
    from hpcllm.server.credentials import read_credentials, write_credentials

    path = _path(workspace)
    held = read_credentials(path)
    given = None if clear else _typed()
    write_credentials(path, held.with_password(given, "staff" if staff else "user"))


def _typed() -> str:
    if sys.stdin is not None and not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    typed: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return typed


def _path(directory: Path | None) -> Path:
    from hpcllm.server.credentials import CREDENTIALS_FILE

    return open_workspace(directory).var_dir / CREDENTIALS_FILE
