"""Checks of the project's own documentation: links, and words that do not belong in it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)|!\[[^\]\n]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)
COMMAND = re.compile(r"(?:^\s*(?:\$ )?|&& |; |\$ )hpcllm +([^#|;&>$]+)")


def documents(root: Path) -> list[Path]:
    """Return the Markdown files that describe the project."""
    return [
        *sorted(root.glob("*.md")),
        *sorted((root / "docs").rglob("*.md")),
        root / "index/README.md",
    ]


def link_problems(root: Path) -> list[str]:
    """Return relative links whose file is not there."""
    problems = []
    for document in documents(root):
        for found in LINK.findall(document.read_text(encoding="utf-8")):
            target = (found[0] or found[1]).partition("#")[0]
            if target and "://" not in target and not (document.parent / target).exists():
                problems.append(f"{document.relative_to(root)}: link to {target}")
    return problems


def wording_problems(root: Path) -> list[str]:
    """Return lines of tracked text files that name the folder this checkout lies in."""
    here = f"{root.resolve().parent}/"
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=False
    ).stdout
    problems = []
    for name in filter(None, listed.split("\0")):
        path = root / name
        if not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if here in line:
                problems.append(f"{name}:{number}: {line.strip()[:80]}")
    return problems


def example_problems(root: Path) -> list[str]:
    """Return ``hpcllm`` commands in the documentation that the program does not take.

    Each command line of a ``console`` or ``bash`` block is looked up in the program itself: the
    command must exist and know every option. Python blocks must compile.
    """
    problems = []
    for document in documents(root):
        name = document.relative_to(root)
        for language, body in FENCE.findall(document.read_text(encoding="utf-8")):
            if language == "python":
                try:
                    compile(body, str(name), "exec")
                except SyntaxError as exc:
                    problems.append(f"{name}: Python example: {exc}")
            elif language in ("console", "bash"):
                problems += [f"{name}: {problem}" for problem in _command_problems(body)]
    return problems


def _command_problems(body: str) -> list[str]:
    import typer.main

    from hpcllm.cli.main import app

    problems = []
    for line in body.replace("\\\n", " ").splitlines():
        match = COMMAND.search(line)
        if not match:
            continue
        command, known = typer.main.get_command(app), set[str]()
        for word in match.group(1).split():
            known |= {name for option in command.params for name in option.opts}
            if word.startswith("-") and word.partition("=")[0] not in {*known, "--help"}:
                problems.append(f"{word} is no option in: {line.strip()}")
            inner = getattr(command, "commands", None)
            if inner is not None and not word.startswith("-"):
                if word not in inner:
                    problems.append(f"no such command: {line.strip()}")
                    break
                command = inner[word]
    return problems
