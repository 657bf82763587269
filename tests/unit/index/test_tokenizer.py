from __future__ import annotations

import pytest

from hpcllm.index.tokenizer import MAX_TOKEN, tokenize


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--gres=gpu:a100:2", ["--gres=gpu:a100:2", "--gres", "gres", "gpu", "a100", "2"]),
        ("#SBATCH", ["#sbatch", "sbatch"]),
        ("slurm.conf.", ["slurm.conf", "slurm", "conf"]),
        ("/scratch/$USER", ["/scratch/$user", "scratch", "user"]),
        ("${HOME}/x", ["$home/x", "home", "x"]),
        (
            "OMP_NUM_THREADS=4",
            ["omp_num_threads=4", "omp_num_threads", "omp", "num", "thread", "4"],
        ),
        ("80GB", ["80gb", "80", "gb"]),
        (
            "QOSMaxCpuPerUserLimit",
            ["qosmaxcpuperuserlimit", "qos", "max", "cpu", "per", "user", "limit"],
        ),
        ("C++", ["c++"]),
        ("two-factor", ["two-factor", "two", "factor"]),
    ],
)
def test_identifiers_yield_themselves_and_their_parts(text: str, expected: list[str]) -> None:
    assert tokenize(text, "en") == expected


def test_short_options_keep_their_case() -> None:
    assert tokenize("srun -n 4 -N 2", "en") == ["srun", "-n", "4", "-N", "2"]


def test_plurals_of_acronyms_match_the_singular() -> None:
    assert tokenize("GPUs gpus VMs GPU", "en") == ["gpu", "gpu", "vm", "gpu"]


def test_markdown_marks_do_not_stick_to_words() -> None:
    assert tokenize("**Submit** `sbatch`, [jobs](a)!", "en") == ["submit", "sbatch", "job"]


def test_words_without_content_are_left_out_but_negations_stay() -> None:
    assert tokenize("How do I not do this?", "en") == ["not"]


def test_portuguese_is_stemmed_as_such_and_found_without_accents() -> None:
    page = tokenize("As tarefas e a memória", "pt-BR")
    assert page == tokenize("tarefa memoria", "pt")


def test_a_question_of_unknown_language_meets_pages_of_both() -> None:
    english, portuguese = tokenize("running jobs", "en"), tokenize("tarefas", "pt")
    question = set(tokenize("running jobs tarefas"))
    assert question >= {*english, *portuguese}


def test_a_language_without_stemmer_takes_english() -> None:
    assert tokenize("jobs", "fi") == ["job"]


def test_what_holds_no_word_yields_nothing() -> None:
    assert tokenize(" | --- | ... ==== \n\t") == []


def test_an_overlong_run_is_not_kept_whole() -> None:
    assert tokenize("a" * (MAX_TOKEN + 1) + "/tmp", "en") == ["tmp"]
