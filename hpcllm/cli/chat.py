"""``hpcllm chat``: a conversation in the terminal, with follow-up questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hpcllm.cli.ask import show_answer, stream_answer
from hpcllm.cli.common import WorkspaceOption, note, open_workspace

if TYPE_CHECKING:
    from hpcllm.records import Turn

HELP = "Commands: /new starts afresh, /quit or Ctrl-D leaves."


def chat(
    cluster: Annotated[str | None, typer.Option(help="Cluster that the talk is about.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Model of the catalog, or extractive for none.")
    ] = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Talk with the assistant; follow-up questions are understood."""
    from hpcllm.assistant import Assistant
    from hpcllm.records import Turn

    space = open_workspace(workspace)
    history: list[Turn] = []
    with Assistant.open(space, model=model) as assistant:
        note(f"{space.settings.site.name}. {HELP}")
        while (question := _prompt()) is not None:
            if question == "/new":
                history.clear()
                note("New conversation.")
            elif question.startswith("/"):
                note(HELP)
            elif question:
                answer = stream_answer(assistant, question, history=tuple(history), cluster=cluster)
                show_answer(answer)
                history += [Turn("user", question), Turn("assistant", answer.text)]


def _prompt() -> str | None:
    """Return the next line, or None when the talk is over."""
    try:
        line = input("\n> ").strip()
    except EOFError:
        return None
    return None if line in ("/quit", "/exit") else line
