"""Evaluate a scripted system on a small site; run as a process of its own so that it can be killed.

Usage: python -m tests.integration.evaluation.run_evaluation WORKSPACE RESULTS DELAY_S PARALLEL
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from hpcllm.assistant.assistant import Assistant, Options, Writer
from hpcllm.assistant.prompt import PromptBudget
from hpcllm.evaluation.answering import AssistantAnswerer
from hpcllm.evaluation.metrics.known import read_known
from hpcllm.evaluation.questions import load_questions
from hpcllm.evaluation.runner import run_system
from hpcllm.evaluation.scoring import Scorer
from hpcllm.evaluation.systems import System
from hpcllm.index.embedders.hashing import HashEmbedder
from hpcllm.index.generation import open_current
from hpcllm.index.search import Searcher
from hpcllm.models.backends.base import Message
from hpcllm.models.backends.scripted import ScriptedBackend


def reply(messages: Sequence[Message]) -> str:
    """Answer from the prompt alone, so that the order of questions does not matter."""
    user = messages[-1].content
    first = user.partition("\n</passage>")[0].splitlines()[2:]
    number = len(user) % 3
    if number == 0:
        return "The documentation does not say."
    return f"{' '.join(first)} [1]." if number == 1 else "Use `sbatch --made-up=2` [1]."


def main(workspace: Path, results: Path, delay_s: float, parallel: int) -> None:
    """Run the evaluation to its end."""
    embedder = HashEmbedder()
    backend = ScriptedBackend([reply], delay_s=delay_s)
    assistant = Assistant(
        Searcher(open_current(workspace / "index"), embedder),
        embedder=embedder,
        writer=Writer(backend, budget=PromptBudget(600, 2)),
        options=Options(minimum_evidence=0.0),
    )
    run_system(
        System(
            id="scripted", model="scripted", base_url="http://none.invalid/v1", parallel=parallel
        ),
        AssistantAnswerer(assistant, settings={"model": "scripted"}),
        load_questions(workspace / "corpus" / "questions"),
        results_dir=results,
        make_scorer=lambda: Scorer(known=read_known(workspace / "corpus"), embedder=embedder),
        name="all",
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
