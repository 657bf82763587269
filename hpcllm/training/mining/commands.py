"""Headed procedures and command blocks with the sentence that introduces them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hpcllm.assistant.units import clean_inline, split_sentences
from hpcllm.training.mining.texts import CODE_LINES, STATEMENT_WORDS, is_clean, seed
from hpcllm.training.records import Statement
from hpcllm.training.wording import first_person, phrase, task_of

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from hpcllm.corpus.blocks import Block
    from hpcllm.training.records import Section, Seed

ANSWER_LINES = 8
"""Code of more lines is repeated only where it is a whole job script."""
_TO_DO = re.compile(
    r"^(?:(?:If|When) you (?:want|wish|need|would like) to|(?:In order )?to|You can|"
    r"Para|Se você quiser) (.{6,90}?)(?:,| use\b| run\b| by\b| with\b|:|, você| execute\b| rode\b)",
    re.IGNORECASE,
)
_OUTPUT = re.compile(
    r"^\s*(?:Traceback|\w*Error\b|error:|slurmstepd|srun: error|sbatch: error|JOBID\b|USER\s|total\b|"
    r"Filesystem|\+-{3,}|={4,})",
    re.IGNORECASE,
)
_PROMPT = re.compile(r"^\s*(?:\[[^\]]*\]\s?)?[\w@.:~-]{0,30}[$#>]\s+")
_SHELL = frozenset(
    {"", "bash", "sh", "shell", "console", "slurm", "sbatch", "text", "shell-session"}
)


def mine_commands(section: Section, rng: random.Random) -> Iterator[Seed]:
    """Yield questions that a command block of the section answers."""
    for number, block in enumerate(section.blocks):
        if block.kind != "fence":
            continue
        code, language = _code_of(block)
        if not code:
            continue
        introduction = section.blocks[number - 1] if number else None
        yield from _from_block(section, introduction, code, language, rng)


def _from_block(
    section: Section, before: Block | None, code: str, language: str, rng: random.Random
) -> Iterator[Seed]:
    text, quote = _introduction(before)
    first_line = next(line for line in code.split("\n") if line.strip())
    statement = Statement(text, f"{quote}\n{first_line}".strip(), code, language)
    match = _TO_DO.match(text)
    if match and task_like(match.group(1)):
        question = phrase(rng, section.language, "TASK", task=first_person(match.group(1)))
        yield seed("command_introduced", section, question, statement)
    task = task_of(section.topic)
    slots = {"topic": section.topic, "title": section.title}
    if task and section.language == "en":
        yield seed("procedure", section, phrase(rng, "en", "TASK", task=task), statement)
    elif section.headings:
        question = phrase(rng, section.language, "EXAMPLE", **slots)
        yield seed("procedure", section, question, statement)


def task_like(text: str) -> bool:
    """Whether a phrase can follow "How do I"."""
    return bool(re.match(r"[a-zà-ú]{2,}\s", text)) and is_clean(text)


def _introduction(before: Block | None) -> tuple[str, str]:
    """Return the last sentence before a block as shown, and as it stands."""
    if before is None or before.kind not in ("text", "list"):
        return "", ""
    if before.kind == "list":
        lines = [line.strip() for line in before.lines[-1:]]
        raw = re.sub(r"^(?:[-*+]|\d+[.)])\s+", "", " ".join(lines))
    else:
        raw = " ".join(line.strip() for line in before.lines)
    sentences = split_sentences(raw)
    if not sentences:
        return "", ""
    shown = clean_inline(sentences[-1])
    if not is_clean(shown) or len(shown.split()) > STATEMENT_WORDS:
        return "", ""
    return shown, sentences[-1]


def _code_of(block: Block) -> tuple[str, str]:
    """Return the code of a fence without prompts and its language; empty where it is no command."""
    language = block.lines[0].strip().lstrip("`~").strip().split(" ")[0].lower()
    closed = len(block.lines) > 1 and not block.lines[-1].strip().strip("`~")
    lines = list(block.lines[1:-1] if closed else block.lines[1:])
    margin = min((len(x) - len(x.lstrip()) for x in lines if x.strip()), default=0)
    lines = [line[margin:].rstrip() for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        return "", ""
    if any(_OUTPUT.match(line) for line in lines[:2]) and not _PROMPT.match(lines[0]):
        return "", ""
    is_script = lines[0].startswith("#!")
    if len(lines) > (CODE_LINES if is_script else ANSWER_LINES):
        return "", ""
    if any(len(line) > 160 for line in lines) or "```" in "\n".join(lines):
        return "", ""
    if _PROMPT.match(lines[0]):
        commands = [_PROMPT.sub("", line) for line in lines if _PROMPT.match(line)]
        lines = commands
    language = "bash" if language in _SHELL else language
    return "\n".join(lines), language
