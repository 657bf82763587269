"""``python -m hpcllm.training.retriever questions|ranker OUTPUT``: train what finds and ranks.

``questions`` trains the adapter that questions are read with. The one that ships was trained with
``--leave-out sheffield-hpc`` and one ``--workspace`` for each of csc-user-guide,
nesi-support-docs, slurm, apptainer-userdocs, hpc-intro, marvin-docs-pt and the reference
workspace, each holding an index of the documentation of that name. Some five minutes on one core.

``ranker`` trains the cross-encoder that chooses what is quoted, from the data set that
``hpcllm dataset build`` made. The one that ships was trained with ``--leave-out
nesi-support-docs --leave-out marvin-docs-pt``, the workspaces above and that of sheffield-hpc.
Some forty minutes on one core.

Both need ``hpcllm[train]`` and, once,
``hpcllm models pull all-minilm-l6-v2 --file model.safetensors``.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcllm.errors import HpcLlmError

if TYPE_CHECKING:
    from collections.abc import Iterator

MODEL = "all-minilm-l6-v2"
MINED_OF_A_SOURCE = 280
"""Most mined examples of one source that the ranker learns from, beside all hand-written ones."""

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)


@contextmanager
def _told() -> Iterator[None]:
    """Log what is done, and end with the message alone where the program's own error comes."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        yield
    except HpcLlmError as exc:
        typer.secho(str(exc), fg=typer.colors.RED, err=True)
        raise typer.Exit(1) from exc


@app.command()
def questions(
    output: Annotated[Path, typer.Argument(help="Folder to write the adapter to.")],
    workspace: Annotated[list[Path], typer.Option(help="Workspace with an index; repeatable.")],
    written: Annotated[Path, typer.Option(help="Folder of hand-written questions.")] = Path(
        "training/questions"
    ),
    evaluation: Annotated[
        list[Path] | None,
        typer.Option(help="Questions that must not be learnt: file or folder; repeatable."),
    ] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option(help="Source whose questions are not learnt; repeatable.")
    ] = None,
) -> None:
    """Train the adapter that questions are read with."""
    from hpcllm.index.embedders import load_embedder
    from hpcllm.index.generation import open_current
    from hpcllm.index.search import Searcher
    from hpcllm.training.decontamination import question_texts
    from hpcllm.training.handwritten import read_handwritten
    from hpcllm.training.retriever.encoder import SentenceEncoder
    from hpcllm.training.retriever.question_adapter import SETTINGS, train_question_adapter
    from hpcllm.workspace import Workspace

    with _told():
        spaces = [Workspace.find(folder) for folder in workspace]
        models_dir = spaces[0].models_dir
        embedder = load_embedder(MODEL, models_dir=models_dir, threads=1)
        asked = [q for q in read_handwritten(written) if q.source not in (leave_out or ())]
        report = train_question_adapter(
            asked,
            [Searcher(open_current(space.index_dir), embedder) for space in spaces],
            SentenceEncoder(models_dir / MODEL, window_tokens=SETTINGS.window_tokens),
            output,
            evaluation=question_texts(evaluation or [Path("corpus/questions")]),
            embedder=embedder,
        )
    typer.echo(f"pass {report.best_pass} kept, {report.seconds:.0f} s: {output}")


@app.command()
def ranker(
    output: Annotated[Path, typer.Argument(help="Folder to write adapter and head to.")],
    workspace: Annotated[list[Path], typer.Option(help="Workspace with an index; repeatable.")],
    data: Annotated[Path, typer.Option(help="Data set of hpcllm dataset build.")] = Path(
        "training/data/smollm2-135m-instruct.jsonl"
    ),
    leave_out: Annotated[
        list[str] | None, typer.Option(help="Source whose examples are not learnt; repeatable.")
    ] = None,
) -> None:
    """Train the cross-encoder that chooses what is quoted."""
    from hpcllm.assistant.assistant import Assistant
    from hpcllm.training.dataset import read_examples
    from hpcllm.training.retriever.ranker_lists import build_lists, some_of_each_source
    from hpcllm.training.retriever.ranker_training import train_ranker
    from hpcllm.workspace import Workspace

    with _told():
        spaces = [Workspace.find(folder) for folder in workspace]
        searches = {}
        for space in spaces:
            assistant = Assistant.open(space, model="extractive")
            for source, _ in assistant.searcher.generation.store.pages():
                searches[source] = assistant.search
        rows = some_of_each_source(
            read_examples(data), most_mined=MINED_OF_A_SOURCE, leave_out=leave_out or ()
        )
        lists = build_lists(rows, searches, seed=5)
        report = train_ranker(lists, spaces[0].models_dir / MODEL, output)
    typer.echo(f"best piece first in {report.first_right:.1%} of lists kept apart: {output}")


if __name__ == "__main__":
    app()
