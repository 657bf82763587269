"""The ``hpcllm`` program: assembles the command groups and turns errors into exit codes.

Exit codes: 0 done, 1 it failed, 2 the command line or the settings are wrong, 130 interrupted.
Answers and results go to standard output, everything else to standard error.

Commands import what they need inside their functions, so that ``hpcllm --help`` stays quick.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import sys
from typing import Annotated

import typer

from hpcllm import __version__
from hpcllm.cli import (
    ask,
    chat,
    dataset,
    doctor,
    evaluate,
    export,
    ingest,
    init,
    keys,
    models,
    search,
    serve,
    slack,
    train,
)
from hpcllm.errors import ConfigError, HpcLlmError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="hpcllm",
    help="Answer questions about a computing centre from the centre's own documentation.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("init")(init.init)
app.command("ingest")(ingest.ingest)
app.command("search")(search.search)
app.command("ask")(ask.ask)
app.command("chat")(chat.chat)
app.command("serve")(serve.serve)
app.command("slack")(slack.slack)
app.command("doctor")(doctor.doctor)
app.command("export")(export.export)
app.add_typer(train.app, name="train")
app.add_typer(models.app, name="models")
app.add_typer(evaluate.app, name="eval")
app.add_typer(dataset.app, name="dataset")
app.add_typer(keys.app, name="keys")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hpcllm {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
    verbose: Annotated[
        int, typer.Option("--verbose", "-v", count=True, help="Say more; twice for debugging.")
    ] = 0,
) -> None:
    levels = (logging.WARNING, logging.INFO, logging.DEBUG)
    logging.basicConfig(
        level=levels[min(verbose, 2)],
        format="%(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )


def run() -> None:
    """Run the program; the entry point of the ``hpcllm`` script."""
    _print_what_cannot_be_encoded()
    try:
        app()
    except HpcLlmError as exc:
        typer.echo(f"hpcllm: {exc}", err=True)
        sys.exit(EXIT_USAGE if isinstance(exc, ConfigError) else EXIT_FAILED)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of a pipe (head, less) has gone: nothing is wrong. Python would complain once
        # more when it flushes standard output at exit.
        _drop_output()
        sys.exit(EXIT_FAILED)
    except OSError as exc:
        if exc.errno != errno.ENOSPC:
            raise
        _drop_output()
        place = exc.filename or "standard output or the file written last"
        typer.echo(f"hpcllm: no space left for {place}: free some and run it again", err=True)
        sys.exit(EXIT_FAILED)


def _print_what_cannot_be_encoded() -> None:
    """Let a terminal show ``?`` for a letter that its encoding lacks, not end in an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _drop_output() -> None:
    """Send what standard output still holds nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    run()
