"""Read server-sent events as OpenAI-compatible servers send them.

Role: bytes to JSON objects, with bounds on what an untrusted server may make us hold.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hpcllm.errors import GenerationError
from hpcllm.records import short

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DONE = "[DONE]"
LINE_LIMIT = 1 << 20
"""Most bytes of one line."""


def lines(blocks: Iterable[bytes]) -> Iterator[str]:
    """Yield lines without their ends. Only LF and CRLF end a line.

    ``str.splitlines`` must not be used here: it also splits at U+2028 and the like, which may
    stand inside JSON text.

    Raises:
        GenerationError: a line is longer than :data:`LINE_LIMIT`.
    """
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r").decode("utf-8", errors="replace")
        if len(rest) > LINE_LIMIT:
            raise GenerationError(f"the server sent a line of more than {LINE_LIMIT} bytes")
    if rest:
        yield rest.removesuffix(b"\r").decode("utf-8", errors="replace")


def events(blocks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the JSON object of each data line up to the end mark, if one comes.

    Comments, other fields and empty lines are passed over.

    Raises:
        GenerationError: a data line holds no JSON object: text would be lost.
    """
    for line in lines(blocks):
        field, _, value = line.partition(":")
        if field != "data":
            continue
        value = value.removeprefix(" ")
        if value.strip() == DONE:
            return
        yield _parse(value)


def _parse(value: str) -> dict[str, Any]:
    try:
        data = json.loads(value)
    except json.JSONDecodeError as exc:
        raise GenerationError(f"the server sent a damaged line: {short(value)!r}") from exc
    if not isinstance(data, dict):
        raise GenerationError(f"the server sent {short(value)!r} where an object was expected")
    return data
