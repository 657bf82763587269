"""Commands right: does the answer give the gold commands?

Commands are compared after parsing (:mod:`~hpcllm.evaluation.metrics.commandline`), so that
``-N 2`` equals ``--nodes=2``, the order of options does not matter, and names that a reader
replaces anyway (``my_name``, ``<file>``, an example account, a job number) equal one another.
An answer may add options; what it may not do is leave one out or give it another value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hpcllm.evaluation.facts import holds_fact
from hpcllm.evaluation.metrics.command_tables import DIRECTIVE
from hpcllm.evaluation.metrics.commandline import Command, parse_commands
from hpcllm.evaluation.metrics.markdown import (
    code_spans,
    fenced_code,
    without_fences,
    without_marks,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SUBMITTING = frozenset({DIRECTIVE, "sbatch", "srun", "salloc", "option"})
"""Where an option of a batch job may stand: all of them mean the same to the scheduler."""

_KNOWN_TOOLS = (
    "sbatch srun salloc squeue sacct scancel sinfo scontrol sstat sprio sshare sacctmgr module ml "
    "scp rsync ssh sftp apptainer singularity export conda mamba pip python python3 git rclone "
    "chmod setfacl lfs mpirun mpiexec seff tar ulimit umask"
)
KNOWN_TOOLS = frozenset(_KNOWN_TOOLS.split())
"""Tools that start a command also where an answer has forgotten its code marks."""

_BARE_LINE = re.compile(r"^\s*(?:[-*+]\s+|\d+[.)]\s+)?(?:\$\s+)?(?P<line>(?P<tool>[\w#]+)\b.*)$")


def commands_in(text: str) -> list[Command]:
    """Return the commands of an answer: fenced code, code spans, and bare lines of known tools."""
    code = [*fenced_code(text), *code_spans(text)]
    bare = without_marks(without_fences(text)).replace("`", "")
    for line in bare.splitlines():
        match = _BARE_LINE.match(line)
        if match and (match["tool"] in KNOWN_TOOLS or match["line"].startswith(DIRECTIVE)):
            code.append(match["line"])
    return [command for part in code for command in parse_commands(part)]


def commands_share(gold: Sequence[str], text: str) -> float:
    """Return the share of the gold commands that the answer gives.

    Bounds: 0 to 1; defined for questions with gold commands. A gold command counts as given when
    a command of the answer satisfies it (:func:`satisfies`) or when it stands in the answer
    letter for letter. Comparable between systems because layout does not matter.
    """
    given = commands_in(text)
    bare = without_marks(text)
    right = [
        line
        for line in gold
        if holds_fact(bare, line) or all(satisfies(c, given) for c in _parsed(line))
    ]
    return len(right) / len(gold)


def _parsed(line: str) -> list[Command]:
    return parse_commands(line) or [Command(line)]


def satisfies(gold: Command, given: Iterable[Command]) -> bool:
    """Say whether one of the commands given, or some together, do what ``gold`` does.

    Directives and exported variables may be spread over several lines, and modules may be loaded
    one by one; every other command must be given in one piece: same tool, at least the gold
    options with their values, the same arguments in the same order.
    """
    given = list(given)
    if gold.tool == DIRECTIVE:
        held = {pair for command in given if command.tool in SUBMITTING for pair in command.options}
        return gold.options <= held
    if gold.tool == "export":
        held = {pair for command in given if command.tool == "export" for pair in command.options}
        return gold.options <= held
    if gold.tool == "module load":
        loads = (command.arguments for command in given if command.tool == gold.tool)
        return set(gold.arguments) <= {name for names in loads for name in names}
    return any(
        command.tool == gold.tool
        and gold.options <= command.options
        and gold.arguments == command.arguments
        for command in given
    )
