"""What the command parser knows of each tool: option names, values, subcommands.

Names of options are those of Slurm 22.05 to 24.11, rsync 3.2, OpenSSH 9 and Apptainer 1.3.
Tools that are not listed are read by a general rule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

DIRECTIVE = "#SBATCH"


def seconds_of(value: str) -> str:
    """Return a Slurm time as seconds: ``90`` (minutes), ``1:30:00``, ``1-12``, ``2-00:00:00``.

    Anything else (``UNLIMITED``, ``$TIME``) is returned as it is.
    """
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", value)
    if not match:
        return value.upper()
    days, *rest = match.groups()
    first, second, third = (None if part is None else int(part) for part in rest)
    if days is not None:
        hours, minutes, seconds = first or 0, second or 0, third or 0
    elif third is not None:
        hours, minutes, seconds = first or 0, second or 0, third
    else:
        hours, minutes, seconds = 0, first or 0, second or 0
    return f"{((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds}s"


def kibibytes_of(value: str) -> str:
    """Return a Slurm amount of memory as KiB; without a unit it is MiB."""
    match = re.fullmatch(r"(\d+)([KMGT]?)i?B?", value, re.IGNORECASE)
    if not match:
        return value
    power = {"K": 0, "M": 1, "": 1, "G": 2, "T": 3}[match.group(2).upper()]
    return f"{int(match.group(1)) * 1024**power}K"


def listed(value: str) -> str:
    """Return a comma-separated list in alphabetical order."""
    return ",".join(sorted(part.strip() for part in value.split(",")))


def lower(value: str) -> str:
    """Return ``value`` in lower case."""
    return value.lower()


NORMAL_VALUES = {
    "--time": seconds_of,
    "--time-min": seconds_of,
    "--mem": kibibytes_of,
    "--mem-per-cpu": kibibytes_of,
    "--mem-per-gpu": kibibytes_of,
    "--tmp": kibibytes_of,
    "--gres": listed,
    "--mail-type": lambda value: listed(value.upper()),
    "--state": lambda value: listed(value.upper()),
    "--format": lambda value: listed(value.lower()),
    "--partition": listed,
    "--licenses": listed,
    "--nodelist": listed,
    "--exclude": listed,
    "--bind": listed,
}
"""How values are normalised, by option; the same in every tool that has the option."""


@dataclass(frozen=True, slots=True)
class Table:
    """How one tool's options are read.

    Attributes:
        short: long name by short name; a short option that is not listed keeps its name.
        flags: long options without a value; every other long option takes the word after it.
        valued: short options that take a value and have no long name.
        bundles: short options that stand for several.
        stops_after_argument: whether the first argument starts another program's words.
        single_dash: whether long options start with one dash.
    """

    short: Mapping[str, str] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    bundles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stops_after_argument: bool = False
    single_dash: bool = False

    def takes_value(self, name: str) -> bool:
        """Say whether the option called ``name`` is followed by a value."""
        if name.startswith("--"):
            return name not in self.flags and name not in GENERAL_FLAGS
        return name in self.valued

    def value(self, name: str, value: str) -> str:
        """Return the normal form of a value."""
        return NORMAL_VALUES[name](value) if name in NORMAL_VALUES else value


def _table(
    short: str,
    flags: str,
    *,
    valued: str = "",
    stops: bool = False,
    bundles: Mapping[str, tuple[str, ...]] | None = None,
) -> Table:
    """Build a table from ``-N:nodes -n:ntasks`` and ``exclusive hold``."""
    pairs = (entry.partition(":") for entry in short.split())
    return Table(
        short={name: f"--{long}" for name, _, long in pairs},
        flags=frozenset(f"--{name}" for name in flags.split()),
        valued=frozenset(valued.split()),
        stops_after_argument=stops,
        bundles=bundles or {},
    )


_GENERAL_FLAGS = (
    "help version verbose quiet force recursive all yes upgrade no-cache-dir progress global "
    "no-deps editable me"
)
GENERAL_FLAGS = frozenset(f"--{name}" for name in _GENERAL_FLAGS.split())
"""Long options that take no value in any tool."""

_SUBMIT_SHORT = (
    "-A:account -a:array -b:begin -C:constraint -c:cpus-per-task -D:chdir -d:dependency -e:error "
    "-F:nodefile -G:gpus -H:hold -i:input -J:job-name -k:no-kill -L:licenses -M:clusters "
    "-m:distribution -N:nodes -n:ntasks -o:output -O:overcommit -p:partition -Q:quiet -q:qos "
    "-s:oversubscribe -S:core-spec -t:time -V:version -v:verbose -W:wait -w:nodelist -x:exclude"
)
_SUBMIT_FLAGS = (
    "contiguous disable-stdout-job-summary exclusive hold ignore-pbs no-kill no-requeue overcommit "
    "oversubscribe parsable quiet reboot requeue spread-job test-only usage use-min-nodes verbose "
    "wait no-shell pty label overlap unbuffered multi-prog preserve-env immediate "
    "kill-on-bad-exit exact"
)
_QUERY_FLAGS = (
    "noheader long all start allocations parsable parsable2 duplicates summarize Node hide exact "
    "me allusers truncate units batch full ctld interactive json steps iterate responding dead "
    "list-reasons long-listing"
)

_RSYNC_SHORT = (
    "-a:archive -v:verbose -z:compress -r:recursive -n:dry-run -h:human-readable -e:rsh -u:update "
    "-t:times -p:perms -l:links -H:hard-links -c:checksum -x:one-file-system -q:quiet "
    "-W:whole-file -S:sparse -A:acls -X:xattrs -L:copy-links -o:owner -g:group -b:backup "
    "-R:relative"
)
_RSYNC_FLAGS = (
    "archive verbose compress recursive dry-run human-readable update times perms links hard-links "
    "checksum one-file-system quiet whole-file sparse acls xattrs copy-links owner group backup "
    "relative partial progress delete inplace append append-verify stats no-owner no-group "
    "no-perms no-times ignore-existing existing delete-after delete-before delete-excluded "
    "remove-source-files itemize-changes numeric-ids prune-empty-dirs mkpath old-args"
)

TABLES: Mapping[str, Table] = {
    "sbatch": _table(_SUBMIT_SHORT, _SUBMIT_FLAGS, stops=True),
    "salloc": _table(_SUBMIT_SHORT, _SUBMIT_FLAGS, stops=True),
    "srun": _table(
        _SUBMIT_SHORT.replace("-W:wait", "-W:wait-seconds")
        + " -l:label -u:unbuffered -K:kill-on-bad-exit -r:relative -T:threads -I:immediate",
        _SUBMIT_FLAGS.replace(" wait", ""),
        stops=True,
    ),
    "squeue": _table(
        "-A:account -a:all -h:noheader -i:iterate -j:jobs -l:long -M:clusters -n:name -o:format "
        "-O:Format -p:partition -q:qos -S:sort -s:steps -t:states -u:user -w:nodelist -r:array",
        _QUERY_FLAGS + " array",
    ),
    "sacct": _table(
        "-A:accounts -a:allusers -b:brief -E:endtime -j:jobs -l:long -M:clusters -N:nodelist "
        "-n:noheader -o:format -P:parsable2 -p:parsable -q:qos -r:partition -S:starttime -s:state "
        "-u:user -X:allocations -D:duplicates",
        _QUERY_FLAGS + " brief",
    ),
    "sinfo": _table(
        "-a:all -e:exact -h:noheader -i:iterate -l:long -N:Node -n:nodes -o:format -O:Format "
        "-p:partition -R:list-reasons -r:responding -s:summarize -S:sort -t:states -d:dead",
        _QUERY_FLAGS,
    ),
    "sstat": _table(
        "-a:allsteps -j:jobs -n:noheader -o:format -p:parsable -P:parsable2",
        _QUERY_FLAGS + " allsteps",
    ),
    "sprio": _table(
        "-j:jobs -l:long -n:norm -o:format -u:user -w:weights -h:noheader",
        _QUERY_FLAGS + " norm weights",
    ),
    "sshare": _table(
        "-A:accounts -a:all -l:long -u:users -U:Users -n:noheader", _QUERY_FLAGS + " Users"
    ),
    "scancel": _table(
        "-A:account -b:batch -f:full -i:interactive -M:clusters -n:name -p:partition -q:qos "
        "-s:signal -t:state -u:user -w:nodelist",
        _QUERY_FLAGS + " hurry",
    ),
    "apptainer": _table(
        "-B:bind -e:cleanenv -c:contain -C:containall -H:home -i:ipc -p:pid -W:workdir -F:force "
        "-f:fakeroot -u:username -s:sandbox",
        "nv rocm cleanenv contain containall fakeroot force sandbox no-home writable "
        "writable-tmpfs nvccli no-mount-home compat ipc pid password-stdin fix-perms notest",
        stops=True,
    ),
    "ssh": _table("", "", valued="-J -L -R -D -i -o -p -l -F -E -W -b -c -m -O -S -w", stops=True),
    "scp": _table("", "", valued="-i -o -P -J -F -l -c -S -X"),
    "sftp": _table("", "", valued="-i -o -P -J -F -l -c -S -b -B -R"),
    "ssh-keygen": _table("", "", valued="-t -b -f -C -N -P -R -F -l -E"),
    "rsync": _table(_RSYNC_SHORT, _RSYNC_FLAGS, bundles={"-P": ("--partial", "--progress")}),
    "java": Table(single_dash=True),
    "pip": _table(
        "-r:requirement -U:upgrade -e:editable -q:quiet",
        "no-cache-dir user upgrade no-build-isolation no-deps pre force-reinstall",
    ),
    "python": _table("", "user sys-prefix", valued="-m -c -W -X"),
}
"""Reading rules by tool; every other tool gets the general rule of an empty table."""

ALIASES: Mapping[str, str] = {
    "singularity": "apptainer",
    "ml": "module",
    "python3": "python",
    "pip3": "pip",
    "mamba": "conda",
    "micromamba": "conda",
}
"""Names that call the same tool."""

PREFIX_TOOLS = frozenset({"sudo", "time", "nohup", "exec", "command", "env", "nice"})
"""Words before the tool that do not change what it does."""

SUBCOMMAND_TOOLS: Mapping[str, int] = {
    "apptainer": 1,
    "conda": 1,
    "pip": 1,
    "git": 1,
    "lfs": 1,
    "rclone": 1,
    "scontrol": 1,
    "sacctmgr": 1,
    "spack": 1,
    "globus": 1,
    "nextflow": 1,
}
"""Words after the tool that belong to its name."""

MODULE_SUBCOMMANDS: Mapping[str, str] = {
    "load": "load",
    "add": "load",
    "unload": "unload",
    "rm": "unload",
    "del": "unload",
    "avail": "avail",
    "av": "avail",
    "list": "list",
    "spider": "spider",
    "show": "show",
    "display": "show",
    "swap": "swap",
    "switch": "swap",
    "purge": "purge",
    "save": "save",
    "s": "save",
    "restore": "restore",
    "r": "restore",
    "use": "use",
    "unuse": "unuse",
    "help": "help",
    "whatis": "whatis",
    "key": "keyword",
    "keyword": "keyword",
    "savelist": "savelist",
    "reset": "reset",
    "update": "update",
}
"""Subcommands of ``module`` by every name they have."""

IGNORED_OPTIONS: Mapping[str, frozenset[str]] = {
    "rsync": frozenset({"--verbose", "--human-readable", "--quiet", "--progress"}),
    "scp": frozenset({"-v", "-q"}),
    "ssh": frozenset({"-v", "-q"}),
    "apptainer": frozenset({"--quiet", "--silent", "--debug"}),
}
"""Options that change only what is printed on the way."""
