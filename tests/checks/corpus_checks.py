"""Checks of the reference corpus: shell blocks, links, scheduler options, numbers, questions."""

from __future__ import annotations

import gzip
import re
import shlex
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})[ \t]*(\w*)[^\n]*\n(.*?)^[ \t]*\2[ \t]*$", re.M | re.S)
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*(?:\{#([\w-]+)\})?$", re.M)
CODE_SPAN = re.compile(r"`([^`\n]+)`")
STATUS = re.compile(r"^status:\s*(outdated|decommissioned)\s*$", re.M)

FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.S)
SLURM_TIME = re.compile(r"(?:(\d+)-)?(\d\d):(\d\d):\d\d")
QUANTITY = re.compile(
    r"(?<![\w.-])(\d[\d,]*(?:\.\d+)?)\s?(?:GB/s|Gbit/s|[GTM]i?B|[GTM]|days?|dias?|hours?|horas?|minutes?|minutos?"
    r"|weeks?|months?|SU|nodes?|cores?|GPUs?|jobs?|files?|tasks?|users?|%)(?!\w)"
)

COMMANDS = ("sbatch", "srun", "salloc", "squeue", "sacct", "scancel", "sinfo", "sstat", "sprio")
"""Commands whose options are looked up in their man pages."""
NEWER_OPTIONS = {"scancel": {"--cron"}, "squeue": {"--only-job-state"}}
"""Options of newer Slurm releases than the man pages at hand."""
FLAGS = frozenset(
    {"--pty", "--exclusive", "--overlap", "--label", "--parsable", "--test-only", "--wait"}
)
"""Long options that take no value, so that the word after them is a program or a script."""
MAN_FOLDER = Path("/usr/share/man/man1")


def pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield every page of the corpus as (path below ``corpus/``, text)."""
    corpus = root / "corpus"
    for folder in ("handbook", "meridian"):
        for path in sorted((corpus / folder).rglob("*.md")):
            yield str(path.relative_to(corpus)), path.read_text(encoding="utf-8")


def shell_problems(root: Path) -> list[str]:
    """Return shell blocks that ``bash -n`` refuses."""
    problems = []
    for path, text in pages(root):
        for match in FENCE.finditer(text):
            if match.group(3) not in ("bash", "sh", "shell"):
                continue
            done = subprocess.run(
                ["bash", "-n"], input=match.group(4), capture_output=True, text=True, check=False
            )
            if done.returncode:
                line = text.count("\n", 0, match.start()) + 1
                problems.append(f"{path}:{line}: {done.stderr.strip().splitlines()[0]}")
    return problems


def slug(heading: str) -> str:
    """Return the anchor that a heading gets: lower case, punctuation dropped, spaces to hyphens."""
    plain = re.sub(r"[`*]", "", heading).lower()
    return re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip())


@cache
def anchors(path: Path) -> frozenset[str]:
    """Return the anchors of a page."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return frozenset(m.group(2) or slug(m.group(1)) for m in HEADING.finditer(text))


def link_problems(root: Path) -> list[str]:
    """Return relative links whose page or heading is not there."""
    problems = []
    for path, text in pages(root):
        page = root / "corpus" / path
        for target in LINK.findall(FENCE.sub("", text)):
            if "://" in target or target.startswith("mailto:"):
                continue
            name, _, anchor = target.partition("#")
            other = (page.parent / name).resolve() if name else page
            if not other.is_file():
                problems.append(f"{path}: link to {target}, which is not there")
            elif anchor and anchor not in anchors(other):
                problems.append(f"{path}: link to {target}: no such heading")
    return problems


@cache
def known_options(command: str) -> frozenset[str]:
    """Return the options that a command's man page names; empty where it is not installed."""
    file = MAN_FOLDER / f"{command}.1.gz"
    if not file.is_file():
        return frozenset()
    text = gzip.decompress(file.read_bytes()).decode("utf-8", "replace").replace("\\-", "-")
    text = re.sub(r"\\f[BIRP]", "", text)
    found = re.findall(r"(?<![\w-])(--[a-z][\w-]*|-[A-Za-z])(?![\w])", text)
    return frozenset(found) | NEWER_OPTIONS.get(command, set())


def option_problems(root: Path) -> list[str]:
    """Return scheduler options that the man pages of the installed Slurm do not know."""
    if not known_options("sbatch"):
        return ["the man pages of slurm-client are not installed: apt-get install slurm-client"]
    problems = []
    for path, text in pages(root):
        if STATUS.search(text):
            continue
        for line in command_lines(text):
            problems += [f"{path}: {problem}" for problem in _line_problems(line)]
    return problems


def command_lines(text: str) -> Iterator[str]:
    """Yield every command line or directive of a page: fenced lines and code spans."""
    for match in FENCE.finditer(text):
        if match.group(3) != "text":
            yield from match.group(4).replace("\\\n", " ").splitlines()
    yield from CODE_SPAN.findall(FENCE.sub("", text))


def _line_problems(line: str) -> list[str]:
    try:
        words = shlex.split(line.replace("#SBATCH", "SBATCH"), comments=True)
    except ValueError:
        return []
    words = words[1:] if words[:1] == ["$"] else words
    if not words:
        return []
    command = "sbatch" if words[0] == "SBATCH" else words[0]
    if command not in COMMANDS:
        return []
    known = known_options(command)
    return [
        f"{option} is no option of {command} (in {line.strip()!r})"
        for option in options_of(words[1:])
        if known and option not in known
    ]


def options_of(words: list[str]) -> Iterator[str]:
    """Yield the options before the program that a command line starts."""
    takes_value = False
    for word in words:
        if word in ("|", "&&", "||", ";", ">", "--") or "$(" in word:
            return
        if word.startswith("--"):
            yield word.partition("=")[0]
            takes_value = "=" not in word and word not in FLAGS
        elif word.startswith("-") and len(word) > 1 and not word[1].isdigit():
            yield word[:2]
            takes_value = len(word) == 2
        elif takes_value:
            takes_value = False
        else:
            return


def site_problems(root: Path) -> list[str]:
    """Return quantities in current Meridian pages that ``site.toml`` does not know.

    Pages marked as old and the dated news speak of other times and are left out; sums and example
    outputs stand in ``derived_numbers.toml``.
    """
    known = set(numbers_in(_toml(root / "corpus" / "site.toml")))
    derived = _toml(Path(__file__).parent / "derived_numbers.toml")
    problems = []
    for path, text in pages(root):
        folder, _, name = path.partition("/")
        if folder != "meridian" or STATUS.search(text) or name == "news.md":
            continue
        allowed = {q for group in derived.get(Path(name).stem, {}).values() for q in group}
        for match in QUANTITY.finditer(FRONT_MATTER.sub("", text)):
            number = float(match.group(1).replace(",", ""))
            if match.group(0) not in allowed and number not in known:
                problems.append(f"{path}: {match.group(0)} is no value of site.toml")
    return problems


def _toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def numbers_in(value: Any) -> Iterator[float]:
    """Yield every number of nested data; a Slurm time also as minutes, hours and days."""
    if isinstance(value, dict | list):
        yield float(len(value))
        for item in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(item)
    elif isinstance(value, int | float):
        yield float(value)
    else:
        if match := SLURM_TIME.fullmatch(str(value)):
            days, hours, minutes = (int(part or 0) for part in match.groups())
            total = days * 1440 + hours * 60 + minutes
            yield from (float(days), float(total), total / 60, total / 1440)
        for number in re.findall(r"\d[\d,]*(?:\.\d+)?", str(value)):
            yield float(number.replace(",", ""))


def question_problems(root: Path) -> list[str]:
    """Return what is wrong with the evaluation questions."""
    from hpcllm.evaluation.questions import check_counts, check_questions, load_questions

    folder = root / "corpus" / "questions"
    if not any(folder.glob("*.jsonl")):
        return [f"{folder.name}: no question files"]
    questions = load_questions(folder)
    stated = tomllib.loads((folder / "counts.toml").read_text(encoding="utf-8"))
    return check_questions(questions, root / "corpus") + check_counts(questions, stated)
