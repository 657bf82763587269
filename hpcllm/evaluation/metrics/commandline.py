"""Parse command lines into a form in which equal commands are equal.

``sbatch -N 2 -t 1:00:00 job.sh`` and ``sbatch --time=01:00:00 --nodes=2 job.sh`` become the same
:class:`Command`. Rules by tool (:mod:`~hpcllm.evaluation.metrics.command_tables`): short options
become long ones, values become numbers where they are amounts, the order of options is dropped,
the order of arguments is kept. Nothing is ever run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hpcllm.evaluation.metrics.command_tables import (
    ALIASES,
    DIRECTIVE,
    IGNORED_OPTIONS,
    MODULE_SUBCOMMANDS,
    PREFIX_TOOLS,
    SUBCOMMAND_TOOLS,
    TABLES,
    Table,
)

_OPERATOR = re.compile(r"\|\|?|&&?|;")
_REDIRECTION = re.compile(r"(?:\d|&)?(?:>>?|<{1,3})(&\d|&-)?\s*")
_NAME = re.compile(r"<[A-Za-z][^<>\s]*>")
_SPACED_NAME = re.compile(r"<([A-Za-z][\w ,'-]*)>")
_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=")
_PROMPT = re.compile(r"^\s*(?:\[[^\]\n]*@[^\]\n]*\]\s*)?[$>%]\s+")
_PLACEHOLDER = re.compile(
    r"<[^<>\s]+>|\b(?:my|your|their)_\w+|\bmer\d{4}\b|\$USER\b|\$\{USER\}|\b\d{6,}\b", re.IGNORECASE
)
BLANK = "□"
"""What placeholders become: names like ``my_name``, ``<file>``, example accounts, job numbers."""


@dataclass(frozen=True, slots=True)
class Command:
    """One parsed command.

    Attributes:
        tool: program, with its subcommand where the tool has such (``apptainer exec``);
            ``#SBATCH`` for a directive, ``option`` for an option that stands alone.
        options: pairs of option and value; the value of a flag is empty. For ``export`` the pairs
            are variables and their values.
        arguments: what is no option, in order; for ``module load`` sorted.
    """

    tool: str
    options: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    arguments: tuple[str, ...] = ()

    @property
    def option_names(self) -> frozenset[str]:
        """Names of the options without values."""
        return frozenset(name for name, _ in self.options)


def parse_commands(text: str) -> list[Command]:
    """Parse shell text: several lines, pipelines and lists give several commands.

    Args:
        text: lines of a script or one command; prompts (``$ ``) and comments are dropped,
            ``#SBATCH`` directives are not comments.
    """
    joined = re.sub(r"\\\n\s*", " ", text)
    return [command for line in joined.splitlines() for command in _parse_line(line)]


def _parse_line(line: str) -> list[Command]:
    line = _SPACED_NAME.sub(lambda match: match.group().replace(" ", "_"), line)
    line = _PROMPT.sub("", line).strip()
    if line.startswith(DIRECTIVE):
        words = [word for part in split_words(line.removeprefix(DIRECTIVE)) for word in part]
        options, _ = _options(words, TABLES["sbatch"])
        return [Command(DIRECTIVE, options)]
    if line.startswith("#"):
        return []
    return [command for words in split_words(line) for command in _parse_words(words)]


def split_words(line: str) -> list[list[str]]:
    """Split a line into simple commands, each a list of words with quotes removed.

    ``$(…)`` and ``<name>`` stay whole; redirections are dropped with their target; text after a
    free-standing ``#`` is a comment. An unclosed quote runs to the end of the line.
    """
    commands: list[list[str]] = [[]]
    position = 0
    while position < len(line):
        if line[position].isspace():
            position += 1
        elif line[position] == "#":
            break
        elif not _NAME.match(line, position) and (found := _REDIRECTION.match(line, position)):
            position = found.end()
            if not found.group(1):
                _, position = _word(line, position)
        elif operator := _OPERATOR.match(line, position):
            commands.append([])
            position = operator.end()
        else:
            word, position = _word(line, position)
            commands[-1].append(word)
    return [words for words in commands if words]


def _word(line: str, position: int) -> tuple[str, int]:
    """Read one word from ``position``; return it without quotes, and the position after it."""
    word, quote, depth = "", "", 0
    while position < len(line):
        letter = line[position]
        if quote:
            if letter == quote:
                quote = ""
            else:
                word += letter
        elif letter in "'\"" and not depth:
            quote = letter
        elif not depth and (letter.isspace() or _OPERATOR.match(line, position)):
            break
        else:
            depth += (letter == "(") - (letter == ")" and depth > 0)
            word += letter
        position += 1
    return word, position


def _parse_words(words: list[str]) -> list[Command]:
    """Assignments before a command count as an ``export`` of their own."""
    leading = next((i for i, w in enumerate(words) if not _ASSIGNMENT.match(w)), len(words))
    found = [_export(words[:leading])] if leading else []
    rest = words[leading:]
    while rest and (not rest[0] or rest[0] in PREFIX_TOOLS):
        rest = rest[1:]
    return [*found, _parse_call(rest)] if rest else found


def _parse_call(words: list[str]) -> Command:
    tool = ALIASES.get(words[0].rpartition("/")[2], words[0])
    if tool == "export":
        return _export([word for word in words[1:] if _ASSIGNMENT.match(word)])
    if tool == "module":
        return _module(words[0], words[1:])
    if words[0].startswith("-"):
        options, _ = _options(words, TABLES["sbatch"])
        return Command("option", options)
    return _with_options(tool, words[1:])


def _export(assignments: list[str]) -> Command:
    pairs = (word.partition("=") for word in assignments)
    return Command("export", frozenset((name, plain(value)) for name, _, value in pairs))


def _module(called: str, words: list[str]) -> Command:
    """``ml gcc`` is ``module load gcc``; the order of what is loaded does not matter."""
    words = [word for word in words if not word.startswith("--")]
    if called == "ml" and (not words or words[0] not in MODULE_SUBCOMMANDS):
        words = ["load", *words] if words else ["list"]
    if not words:
        return Command("module")
    subcommand = MODULE_SUBCOMMANDS.get(words[0], words[0])
    return Command(f"module {subcommand}", arguments=tuple(sorted(plain(w) for w in words[1:])))


def _with_options(tool: str, words: list[str]) -> Command:
    table = TABLES.get(tool, Table())
    name = tool
    for _ in range(SUBCOMMAND_TOOLS.get(tool, 0)):
        if words and not words[0].startswith("-"):
            name, words = f"{name} {words[0]}", words[1:]
    options, arguments = _options(words, table)
    ignored = IGNORED_OPTIONS.get(tool, frozenset())
    kept = frozenset(pair for pair in options if pair[0] not in ignored)
    return Command(name, kept, tuple(plain(word) for word in arguments))


def _options(words: list[str], table: Table) -> tuple[frozenset[tuple[str, str]], list[str]]:
    """Split words into normalised options and arguments."""
    options: list[tuple[str, str]] = []
    arguments: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word == "--":
            arguments += words[position:]
            break
        if not _is_option(word):
            arguments.append(word)
            if table.stops_after_argument:
                arguments += words[position:]
                break
            continue
        following = words[position] if position < len(words) else None
        pairs, took = _read_option(word, following, table)
        options += pairs
        position += took
    return frozenset(options), arguments


def _is_option(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and not re.fullmatch(r"-\d+(\.\d+)?", word)


def _read_option(
    word: str, following: str | None, table: Table
) -> tuple[list[tuple[str, str]], bool]:
    """Return the options that one word stands for, and whether it took the word after it."""
    if word.startswith("--") or (table.single_dash and len(word) > 2):
        name, equals, value = word.partition("=")
        if equals:
            return [(name, table.value(name, plain(value)))], False
        if table.takes_value(name) and following is not None and not _is_option(following):
            return [(name, table.value(name, plain(following)))], True
        return [(name, "")], False
    return _read_short(word, following, table)


def _read_short(
    word: str, following: str | None, table: Table
) -> tuple[list[tuple[str, str]], bool]:
    pairs: list[tuple[str, str]] = []
    for place, letter in enumerate(word[1:], 1):
        short = f"-{letter}"
        name = table.short.get(short, short)
        rest = word[place + 1 :].removeprefix("=")
        if table.takes_value(name):
            if rest:
                return [*pairs, (name, table.value(name, plain(rest)))], False
            if following is not None and not _is_option(following):
                return [*pairs, (name, table.value(name, plain(following)))], True
        pairs += [(part, "") for part in table.bundles.get(short, (name,))]
    return pairs, False


def plain(word: str) -> str:
    """Return a word with placeholders blanked and ``${NAME}`` and ``~/`` in one spelling."""
    word = re.sub(r"\$\{(\w+)\}", r"$\1", word)
    word = re.sub(r"^~(?=/|$)", "$HOME", word)
    return _PLACEHOLDER.sub(BLANK, word)
