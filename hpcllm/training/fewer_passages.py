"""The same example with fewer passages in its prompt, as a model with a smaller budget reads it.

Role: for ablations. Knows how :mod:`hpcllm.assistant.prompt` writes passages and nothing else.
"""

from __future__ import annotations

import re
from typing import Any

_PASSAGE = re.compile(r"<passage>\n\[(\d+)\] (.*?)\n</passage>\n*", re.DOTALL)
_MARK = re.compile(r"\[(\d+)\]")


def with_passages(example: dict[str, Any], count: int) -> dict[str, Any]:
    """Return an example whose prompt holds at most ``count`` passages.

    The passages that the answer cites stay, then the best ranked ones; they are numbered anew, in
    the prompt and in the answer's marks. An answer that cites more than ``count`` keeps them all.

    Args:
        example: a line of a data file; it is not changed.
        count: most passages, at least 1.
    """
    messages = [dict(message) for message in example["messages"]]
    numbers = [int(number) for number, _ in _PASSAGE.findall(messages[-1]["content"])]
    cited = {int(mark) for mark in _MARK.findall(example["completion"])} & set(numbers)
    others = [number for number in numbers if number not in cited][: max(0, count - len(cited))]
    kept = sorted([*cited, *others])
    anew = {number: place for place, number in enumerate(kept, 1)}

    def passage(match: re.Match[str]) -> str:
        number = int(match[1])
        return match[0].replace(f"[{number}]", f"[{anew[number]}]", 1) if number in anew else ""

    def mark(match: re.Match[str]) -> str:
        return f"[{anew[int(match[1])]}]" if int(match[1]) in anew else match[0]

    messages[-1]["content"] = _PASSAGE.sub(passage, messages[-1]["content"])
    chunks = [ids for place, ids in enumerate(example.get("passages", ()), 1) if place in anew]
    completion = _MARK.sub(mark, example["completion"])
    return {**example, "messages": messages, "completion": completion, "passages": chunks}
