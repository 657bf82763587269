"""``python -m hpcllm.training.retriever OUTPUT``: train the adapter that questions are read with.

The adapter that ships was trained with ``--leave-out sheffield-hpc`` and one ``--workspace`` for
each of csc-user-guide, nesi-support-docs, slurm, apptainer-userdocs, hpc-intro, marvin-docs-pt and
the reference workspace, each holding an index of the documentation of that name. Some five minutes
on one core. Needs ``hpcllm[train]`` and, once,
``hpcllm models pull all-minilm-l6-v2 --file model.safetensors``.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from hpcllm.errors import HpcLlmError

MODEL = "all-minilm-l6-v2"


def main(
    output: Annotated[Path, typer.Argument(help="Folder to write the adapter to.")],
    workspace: Annotated[list[Path], typer.Option(help="Workspace with an index; repeatable.")],
    questions: Annotated[Path, typer.Option(help="Folder of hand-written questions.")] = Path(
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

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        spaces = [Workspace.find(folder) for folder in workspace]
        models_dir = spaces[0].models_dir
        embedder = load_embedder(MODEL, models_dir=models_dir, threads=1)
        asked = [q for q in read_handwritten(questions) if q.source not in (leave_out or ())]
        report = train_question_adapter(
            asked,
            [Searcher(open_current(space.index_dir), embedder) for space in spaces],
            SentenceEncoder(models_dir / MODEL, window_tokens=SETTINGS.window_tokens),
            output,
            evaluation=question_texts(evaluation or [Path("corpus/questions")]),
            embedder=embedder,
        )
    except HpcLlmError as exc:
        typer.secho(str(exc), fg=typer.colors.RED, err=True)
        raise typer.Exit(1) from exc
    typer.echo(f"pass {report.best_pass} kept, {report.seconds:.0f} s: {output}")


if __name__ == "__main__":
    typer.run(main)
