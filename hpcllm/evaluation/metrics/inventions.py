"""Invented commands: names that no page, man page or site fact knows.

A wrong option that looks right is worse than no answer: users paste it. Counted are options,
partitions, modules and paths in the code of an answer and options in its prose; names that the
user wrote are never held against the answer, nor are placeholders. Comparable between systems
because the list of known names (:mod:`~hpcllm.evaluation.metrics.known`) is the same for all of
them and comes with the package and the corpus.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hpcllm.evaluation.metrics.command_tables import TABLES, Table
from hpcllm.evaluation.metrics.known import MODULE, OPTION, PARTITION, PATH, plain_path
from hpcllm.evaluation.metrics.markdown import code_spans, fenced_code, prose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hpcllm.evaluation.metrics.known import KnownNames

_PLACEHOLDER = re.compile(
    r"[<>$%□]|^(?:my|your|their|some|path|partition|name)\b|^(?:my|your|their)[_-]", re.IGNORECASE
)
_SEPARATOR = re.compile(r"\s*(?:\|\||&&|;|\|(?!\w*>))\s*")
_WRAPPERS = frozenset({"sudo", "time", "nohup", "env", "exec", "$", "command"})
SLURM = frozenset({"sbatch", "srun", "salloc"})
PROGRAM_STARTERS = frozenset({"srun", "mpirun", "mpiexec", "apptainer", "singularity", "ssh"})
"""Tools whose line goes on with another program, whose options are not theirs."""
WORDS_LIMIT = 40
"""Longest line of code in words that is looked at; longer ones are prose set as code."""


def invented_names(text: str, known: KnownNames, *, question: str = "") -> list[str]:
    """Return the invented names of an answer, each once, as ``kind name``.

    Args:
        text: the answer.
        known: what may be used.
        question: what the user wrote, earlier turns included.

    Returns:
        For example ``["option sbatch --gpus-a100", "partition gpu2"]``; empty when all is known.
    """
    found: dict[str, None] = {}
    for line in _lines(text):
        for name in _invented_in(line, known):
            if name.rpartition(" ")[2] not in question:
                found[name] = None
    for option in OPTION.findall(prose(text)):
        is_known = option in known.options.get("*", ()) or any(
            option in names for names in known.options.values()
        )
        if option.startswith("--") and not is_known and option not in question:
            found[f"option {option}"] = None
    return list(found)


def _lines(text: str) -> Iterator[str]:
    for part in [*fenced_code(text), *code_spans(text)]:
        for line in part.replace("\\\n", " ").splitlines():
            bare = re.sub(r"(?<!\S)#(?!SBATCH).*$", "", line).strip()
            if bare and len(bare.split()) <= WORDS_LIMIT:
                yield from (piece for piece in _SEPARATOR.split(bare) if piece)


def _invented_in(line: str, known: KnownNames) -> Iterator[str]:
    words = line.split()
    while words and (words[0] in _WRAPPERS or re.match(r"^[A-Za-z_]\w*=", words[0])):
        words = words[1:]
    if not words:
        return
    tool = {"#SBATCH": "sbatch", "singularity": "apptainer", "ml": "module"}.get(words[0], words[0])
    yield from _options(tool, words, known)
    if tool in SLURM or words[0].startswith("-"):
        yield from _partitions(line, known)
    if tool == "module":
        yield from _modules(words[2:] if words[0] == "module" else words[1:], known)
    elif MODULE.fullmatch(line) and line not in known.modules:
        yield f"module {line}"
    for path in PATH.findall(line):
        if not known.has_path(path) and not _PLACEHOLDER.search(plain_path(path).split("/")[1]):
            yield f"path {plain_path(path)}"


def _options(tool: str, words: list[str], known: KnownNames) -> Iterator[str]:
    if tool.startswith("-"):
        names = [tool.partition("=")[0]]
        everything = frozenset().union(*known.options.values()) if known.options else frozenset()
        yield from (f"option {n}" for n in names if OPTION.fullmatch(n) and n not in everything)
        return
    for word in _own_options(tool, words[1:]):
        option = word.partition("=")[0]
        if not OPTION.fullmatch(option):
            option = option[:2] if re.match(r"-[A-Za-z]", option) else ""
        if option and not known.has_option(tool, option):
            yield f"option {tool} {option}"


def _own_options(tool: str, words: list[str]) -> Iterator[str]:
    """Yield options up to the program that a starter runs; its first plain word after a value."""
    table = TABLES.get(tool, Table())
    takes_value = False
    for word in words:
        if word.startswith("-") and len(word) > 1:
            yield word
            takes_value = "=" not in word and table.takes_value(table.short.get(word, word))
        elif tool in PROGRAM_STARTERS and not takes_value:
            return
        else:
            takes_value = tool == "apptainer" and word in ("exec", "run", "shell", "build", "pull")


def _partitions(line: str, known: KnownNames) -> Iterator[str]:
    for names in PARTITION.findall(line):
        for name in names.split(","):
            if name and name not in known.partitions and not _PLACEHOLDER.search(name):
                yield f"partition {name}"


def _modules(names: list[str], known: KnownNames) -> Iterator[str]:
    for name in names:
        is_name = re.match(r"[A-Za-z]", name) and not name.isupper()
        if not is_name or _PLACEHOLDER.search(name):
            continue
        if name.rstrip(".,") not in known.modules:
            yield f"module {name}"
