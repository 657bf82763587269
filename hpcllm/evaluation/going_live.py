"""Name another model in ``hpcllm.toml``, once its gate holds.

Role: changes one value of the file and nothing else: comments, order and spacing stay.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING

from hpcllm.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

_TABLE = re.compile(r"(?m)^[ \t]*\[model\][ \t]*(?:#.*)?$")
_NEXT_TABLE = re.compile(r"(?m)^[ \t]*\[")
_ID = re.compile(r"""(?m)^([ \t]*id[ \t]*=[ \t]*)(?:"[^"\n]*"|'[^'\n]*')""")


def set_model(path: Path, model: str) -> None:
    """Set ``model.id`` in a settings file, in one step.

    Args:
        path: ``hpcllm.toml``; made where it is missing.
        model: catalog id.

    Raises:
        ConfigError: the file is written in a way that this cannot change safely, or cannot be
            read or written; the message says what to write by hand.
    """
    by_hand = f"set it by hand: id = {json.dumps(model)} under [model] in {path}"
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        after = _with_model(before, model)
        if tomllib.loads(after) != _wanted(tomllib.loads(before), model):
            raise ConfigError(f"{path} does not name its model in the usual way; {by_hand}")
        temporary = path.with_name(f".{path.name}.part")
        temporary.write_text(after, encoding="utf-8")
        temporary.replace(path)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise ConfigError(f"{path} cannot be changed ({exc}); {by_hand}") from exc


def _wanted(data: dict[str, object], model: str) -> dict[str, object]:
    section = data.get("model", {})
    return {**data, "model": {**(section if isinstance(section, dict) else {}), "id": model}}


def _with_model(text: str, model: str) -> str:
    value = json.dumps(model)
    table = _TABLE.search(text)
    if table is None:
        return f"{text.rstrip()}\n\n[model]\nid = {value}\n".lstrip()
    following = _NEXT_TABLE.search(text, table.end())
    end = following.start() if following else len(text)
    section, count = _ID.subn(lambda found: found[1] + value, text[table.end() : end], count=1)
    if not count:
        section = f"\nid = {value}{section}"
    return text[: table.end()] + section + text[end:]
