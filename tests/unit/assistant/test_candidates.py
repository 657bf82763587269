from __future__ import annotations

import pytest

from hpcllm.assistant.candidates import (
    Candidate,
    candidates_of,
    focused,
    outputs,
    pasted,
    readable,
    stray_verdicts,
)
from hpcllm.assistant.language import subject_words
from hpcllm.records import Passage

from .helpers import passage

REASONS = """\
| Reason | Meaning |
| --- | --- |
| `QOSMaxGRESPerUser` | your jobs use the most GPUs |
| `QOSMaxMemoryPerUser` | the same for memory |
| `AssocGrpGRES` | all members together use the most GPUs |

Wait, or ask for fewer GPUs."""
MODULES = """\
| Field | Modules |
| --- | --- |
| Compilers | `gcc/13.3.0`, `intel/2024.2.0` |
| Engineering | `openfoam/11`, `ansys/2024R1` |"""
ERROR = "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.batch."


def texts(candidates: list[Candidate]) -> list[str]:
    return [candidate.unit.text for candidate in candidates]


def page(text: str) -> list[Passage]:
    return [passage(text)]


def test_who_names_one_row_of_a_table_is_not_shown_the_others() -> None:
    found = texts(focused("job pending with QOSMaxGRESPerUser", candidates_of(page(REASONS))))
    assert found == [
        "Reason: `QOSMaxGRESPerUser`; Meaning: your jobs use the most GPUs",
        "Wait, or ask for fewer GPUs.",
    ]
    assert texts(focused("which module for OpenFOAM?", candidates_of(page(MODULES)))) == [
        "Field: Engineering; Modules: `openfoam/11`, `ansys/2024R1`"
    ]


@pytest.mark.parametrize("question", ["longest time, gpu partition", "tempo na partição gpu?"])
def test_a_named_partition_is_found_in_every_part_of_a_table(question: str) -> None:
    head = "| Partition | Time |\n| --- | --- |\n"
    passages = [
        passage(f"{head}| `debug` | 1 h, no GPUs |\n| `gpu-long` | 5 days |", 1),
        passage(f"{head}| `gpu` | 2 days |", 2),
    ]
    assert texts(focused(question, candidates_of(passages))) == ["Partition: `gpu`; Time: 2 days"]


@pytest.mark.parametrize(
    "question", ["why do all members wait", "what does QOSMaxJobsPerUserLimit mean", "Reason?"]
)
def test_a_question_that_names_no_row_keeps_all(question: str) -> None:
    candidates = candidates_of(page(REASONS))
    assert focused(question, candidates) == candidates


def test_a_reader_of_english_is_not_shown_another_language_while_there_is_english() -> None:
    passages = [
        passage("Os jobs pendentes são cancelados.", 1, language="pt"),
        passage("Pending jobs are cancelled.", 2, language="en"),
    ]
    both = candidates_of(passages)
    assert texts(readable(both, passages, "en")) == ["Pending jobs are cancelled."]
    assert readable(both, passages, "pt") == both
    assert readable(both[:1], passages, "en") == both[:1]


def test_a_unit_that_repeats_a_pasted_error_is_known() -> None:
    candidates = candidates_of(page(f"```text\n{ERROR}\n```\n\nAsk for more memory with `--mem`."))
    asked = subject_words(ERROR.replace("4711", "99"))
    assert pasted(asked, candidates).tolist() == [1, 0]
    assert pasted(subject_words("my job was killed: memory?"), candidates).tolist() == [0, 0]


def test_output_is_told_from_commands() -> None:
    text = f"```text\n{ERROR}\n```\n\n```bash\nsacct -j 4711\n```\n\n```console\n$ squeue --me\n```"
    assert outputs(candidates_of(page(text))).tolist() == [1, 0, 0]


def test_a_verdict_below_another_question_strays() -> None:
    text = "## Can I run Windows programs?\n\nNo, there is no licence for them."
    candidates = candidates_of(page(text))
    asked = subject_words("can I run docker containers?")
    assert stray_verdicts(asked, candidates).tolist() == [1]
    assert stray_verdicts(subject_words("run Windows programs"), candidates).tolist() == [0]


@pytest.mark.parametrize("character", ["0", ".", "-", "_", "a", "A", "`", "--a ", "aB", "queue "])
def test_a_question_of_one_character_repeated_is_no_burden(character: str) -> None:
    """Each place was once the beginning of a match that failed at the end: seconds of work."""
    candidates = candidates_of(page(MODULES))
    for _ in range(20):
        assert len(focused(character * (20_000 // len(character)), candidates)) == 2
