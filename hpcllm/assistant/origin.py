"""What a passage is where it is no documentation: an answered ticket, with its date.

Role: whoever reads an answer has to see that a line comes from somebody's ticket and how old it is.
The notice of a passage carries that into prompts, citations and every surface.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hpcllm.errors import HpcLlmError, nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from hpcllm.records import Passage

TICKET_NOTICE = "From a ticket"
"""Start of the notice of a passage that comes from a ticket; its date follows after a comma."""


def with_origin(
    passages: Iterable[Passage], tickets: Mapping[tuple[str, str], str]
) -> tuple[Passage, ...]:
    """Return passages, those from tickets with a notice that says so.

    Args:
        passages: in any order, which stays.
        tickets: date of each ticket, or empty, by source and path.
    """
    return tuple(
        replace(passage, notice=_notice(passage.notice, tickets[passage.source, passage.path]))
        if (passage.source, passage.path) in tickets
        else passage
        for passage in passages
    )


def _notice(notice: str, date: str) -> str:
    origin = f"{TICKET_NOTICE}, {date}" if date else TICKET_NOTICE
    return f"{origin}. {notice}" if notice else origin


def refuse_unknown_scopes(scopes: Collection[str], known: Collection[str]) -> None:
    """Raise HpcLlmError where something is to be searched that the index does not hold."""
    for scope in scopes:
        if scope not in known:
            has = f"holds {', '.join(sorted(known))}" if known else "holds documentation alone"
            hint = nearest(scope, known) or "."
            raise HpcLlmError(
                f"scope {scope!r} cannot be searched: besides its documentation this index has "
                f"none of that name (it {has}){hint} Leave it out, or add such a source to "
                "corpus/sources.toml and run: hpcllm ingest"
            )
