"""``hpcllm init``: scaffold a workspace for a site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcllm.cli.common import note


def init(
    directory: Annotated[Path, typer.Argument(help="Folder to make; must be empty or absent.")],
    docs: Annotated[
        Path | None, typer.Option(help="Folder of documentation that becomes the first source.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the site.")] = None,
) -> None:
    """Make a workspace: settings, a list of sources, places for the index, training and branding.

    Example: hpcllm init mysite --docs ~/user-guide && cd mysite && hpcllm ingest
    """
    from hpcllm.scaffold import scaffold

    made = scaffold(directory, docs=docs, name=name)
    note(f"made {directory} with {len(made)} files")
    if docs:
        note(f"next: hpcllm ingest --workspace {directory}")
    else:
        note(
            f"next: name your documentation in {directory}/corpus/sources.toml, then hpcllm ingest"
        )
