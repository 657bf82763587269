from __future__ import annotations

import random
import string

import pytest

from hpcllm.training import wording_en, wording_pt
from hpcllm.training.wording import first_person, keywords, task_of, with_noise, with_typo

SLOTS = {"topic", "title", "name", "about", "column", "other", "task", "error", "place", "first",
         "second", "question"}  # fmt: skip


@pytest.mark.parametrize("module", [wording_en, wording_pt])
def test_every_wording_uses_known_slots_only(module) -> None:
    for name in dir(module):
        if name.isupper():
            for text in getattr(module, name):
                used = {field for _, field, _, _ in string.Formatter().parse(text) if field}
                assert used <= SLOTS, (name, text)


def test_both_languages_have_the_same_kinds_of_wording() -> None:
    names = [{n for n in dir(m) if n.isupper()} for m in (wording_en, wording_pt)]
    assert names[0] == names[1]


@pytest.mark.parametrize(
    ("heading", "task"),
    [
        ("Request two GPUs", "request two GPUs"),
        ("Submitting your job", "submit my job"),
        ("How to mount a share", "mount a share"),
        ("Loading modules", "load modules"),
        ("Creating and Changing Variables", "create and change Variables"),
        ("Partitions and limits", ""),
        ("Overview", ""),
    ],
)
def test_headings_that_name_a_task_become_verb_phrases(heading: str, task: str) -> None:
    assert task_of(heading) == task


def test_typos_spare_code_numbers_and_short_words() -> None:
    for seed in range(50):
        rng = random.Random(seed)
        assert with_typo("set --mem=4G in /scratch/me for 45days", rng) == (
            "set --mem=4G in /scratch/me for 45days"
        )
    changed = with_typo("how large is the directory", random.Random(1))
    assert changed != "how large is the directory"


def test_keywords_drop_words_without_a_subject() -> None:
    assert keywords("What is the quota of home?") == "quota home"
    assert keywords("How?") == ""


def test_noise_never_touches_options_paths_and_variables() -> None:
    question = "What does `--gres=gpu:a100:2` in /scratch/$USER do with SLURM_JOB_ID?"
    for seed in range(200):
        noisy = with_noise(question, random.Random(seed), "en")
        for part in ("--gres=gpu:a100:2", "/scratch/$USER", "SLURM_JOB_ID"):
            assert part in noisy


def test_text_about_the_reader_becomes_text_of_the_reader() -> None:
    assert first_person("check that you are in your home") == "check that I am in my home"
    assert first_person("it allows you to see what you wrote") == "it allows me to see what I wrote"
