from __future__ import annotations

import json

import pytest

from hpcllm.cli.export import _line
from hpcllm.training.verification import Verification, _differences, _same_start


def verification(**values: float) -> Verification:
    held = {"identical": 0.9, "same_start": 0.95, "perplexity_torch": 2.0, "perplexity_file": 2.01}
    return Verification(prompts=50, **{**held, **values})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "doubt"),
    [
        ({}, ""),
        ({"perplexity_file": 2.09}, ""),
        ({"perplexity_file": 2.11}, "its perplexity is 2.110, torch's 2.000"),
        ({"same_start": 0.3}, "its answers leave torch's after 30% of their words"),
    ],
)
def test_a_file_that_is_off_by_more_than_rounding_is_doubted(
    values: dict[str, float], doubt: str
) -> None:
    assert verification(**values).doubt == doubt


@pytest.mark.parametrize(
    ("first", "second", "share"),
    [
        ("a b c d", "a b x d", 0.5),
        ("a b", "a b", 1.0),
        ("a b", "a b c d", 0.5),
        ("", "", 1.0),
        ("a", "", 0.0),
    ],
)
def test_the_same_start_is_counted_in_words(first: str, second: str, share: float) -> None:
    assert _same_start(first, second) == share


def test_some_differing_answers_are_kept_and_all_can_be_stored() -> None:
    pairs = [("a", "a"), *((f"t{n}", f"f{n}") for n in range(9))]
    kept = _differences(pairs)
    assert kept == tuple((n + 1, f"t{n}", f"f{n}") for n in range(5))
    found = Verification(50, 1 / 3, 1.0, 2.0, 2.0, 40.0, kept)
    assert json.loads(json.dumps(found.to_json()))["identical"] == 0.3333


def test_the_figures_are_printed_in_words() -> None:
    facts = {"size": 144_000_000, **verification(generated_per_second=61.0).to_json()}
    assert _line("Q8_0", facts) == (
        "Q8_0: 144 MB; of 50 greedy answers 90% are torch's, the same up to 95% of their words; "
        "perplexity 2.0100, torch 2.0000; 61 tokens/s"
    )
    assert _line("F16", {"size": 2_000_000}) == "F16: 2 MB"
