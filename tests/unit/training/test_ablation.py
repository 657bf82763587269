from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpcllm.errors import ConfigError, TrainingError
from hpcllm.models.catalog import load_catalog
from hpcllm.training.ablation import Ablation, Setting, Variant, check, divide, load_ablation
from hpcllm.training.ablation_table import to_markdown, with_differences
from hpcllm.training.fewer_passages import with_passages
from hpcllm.training.recipe import load_recipe
from hpcllm.workspace import reference_root

TRAINING = reference_root() / "training"
KINDS = ("hand_email", "hand_typo", "table_row", "refusal_near")


def rows(count: int = 40) -> list[dict[str, Any]]:
    return [{"id": f"e{n}", "kind": KINDS[n % len(KINDS)]} for n in range(count)]


def ablation(*variants: Variant, **values: Any) -> Ablation:
    return Ablation(variant=(Variant(id="all"), *variants), **values)


def ids(examples: list[dict[str, Any]]) -> list[str]:
    return [example["id"] for example in examples]


def test_all_variants_get_as_many_examples_and_none_that_is_held_out() -> None:
    wanted = ablation(
        Variant(id="no-hand", drop=("hand_*",)), Variant(id="tables", keep=("table_*",)), held_out=8
    )
    held_out, chosen = divide(wanted, rows())
    assert len(held_out) == 8
    tables = [row for row in rows() if row["kind"] == "table_row"]
    left = len([row for row in tables if row["id"] not in ids(held_out)])
    assert {id: len(found) for id, found in chosen.items()} == dict.fromkeys(chosen, left)
    assert not {i for found in chosen.values() for i in ids(found)} & set(ids(held_out))
    assert {row["kind"] for row in chosen["no-hand"]} == {"table_row", "refusal_near"}
    assert {row["kind"] for row in chosen["tables"]} == {"table_row"}


def test_variants_share_the_examples_that_they_can() -> None:
    wanted = ablation(Variant(id="no-typos", drop=("hand_typo",)), held_out=4, examples=12)
    _, chosen = divide(wanted, rows())
    kept = [row for row in chosen["all"] if row["kind"] != "hand_typo"]
    assert ids(chosen["no-typos"])[: len(kept)] == ids(kept)
    assert divide(wanted, rows()[::-1])[1] == chosen  # whatever the order of the file


def test_the_share_of_hand_written_ones_is_kept_and_what_is_missing_filled_up() -> None:
    full = [{**row, "question": row["id"], "completion": row["id"]} for row in rows()]
    wanted = ablation(
        Variant(id="half"), Variant(id="hand", keep=("hand_*",)), held_out=4, examples=10
    )
    _, chosen = divide(wanted, full, {"all": None, "half": 0.5, "hand": 0.5})
    assert len([row for row in chosen["half"] if row["kind"].startswith("hand_")]) == 5
    assert {len(found) for found in chosen.values()} == {10}
    assert len(set(ids(chosen["hand"]))) == 10


def test_a_kind_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(TrainingError, match=r"variant x: no example is of kind 'mail\*'.*hand_ema"):
        divide(ablation(Variant(id="x", drop=("mail*",))), rows())


def test_too_few_examples_are_an_error_with_the_remedy() -> None:
    wanted = ablation(Variant(id="tables", keep=("table_*",)), held_out=1, examples=30)
    with pytest.raises(TrainingError, match=r"variant tables has \d+ examples.*lower examples"):
        divide(wanted, rows())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[[variant]]\nid = "a"\n[[variant]]\nid = "a"\n', "must differ, a is there twice"),
        ('[[variant]]\nid = "a"\ndrops = ["x"]\n', "unknown key; did you mean 'drop'?"),
        ("examples = -1\nvariant = []\n", "examples"),
    ],
)
def test_a_wrong_file_is_explained(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_ablation(path)
    assert problem in "\n".join(caught.value.problems)


@pytest.mark.parametrize(
    "path", sorted((TRAINING / "ablations").glob("*.toml")), ids=lambda path: path.stem
)
def test_the_files_that_ship_are_valid_with_the_recipe_that_they_name(path: Path) -> None:
    ablation = load_ablation(path)
    command = path.read_text(encoding="utf-8").split("hpcllm train ablate ")[1]
    recipe = TRAINING / "recipes" / f"{command.split()[0]}.toml"
    assert f"training/ablations/{path.name}" in command
    for variant in ablation.variant:
        load_recipe(recipe, [*ablation.set, *variant.set])


def test_a_wrong_setting_or_another_base_stops_it_before_anything_is_trained(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows()), encoding="utf-8")
    recipe = TRAINING / "recipes" / "smollm2-135m-cpu.toml"
    entry = load_catalog().get("smollm2-135m-instruct")

    def setting(*changes: str) -> Setting:
        wanted = ablation(Variant(id="b", set=changes), held_out=4)
        return Setting(wanted, recipe, entry, data, tmp_path, tmp_path)

    with pytest.raises(ConfigError) as caught:
        check(setting("training.ranks=3"))
    assert "training.ranks: unknown key" in caught.value.problems[0]
    with pytest.raises(
        ConfigError, match=r"variant b sets base.model to other: all variants adapt"
    ):
        check(setting("base.model=other"))
    with pytest.raises(TrainingError, match=r"no variant 'c'. Variants: all, b"):
        setting().ablation.named("c")
    with pytest.raises(ConfigError, match=r"data.limit is not for variants.*set examples"):
        check(setting("data.limit=9"))


def prompt(count: int) -> str:
    blocks = [f"<passage>\n[{n}] Page {n}\ntext {n} [9]\n</passage>" for n in range(1, count + 1)]
    return "\n\n".join([*blocks, "Question: why [2]?"])


def example(completion: str, count: int = 4) -> dict[str, Any]:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": prompt(count)}]
    passages = [[f"c{n}"] for n in range(1, count + 1)]
    return {"messages": messages, "completion": completion, "passages": passages}


def test_cited_passages_stay_and_are_numbered_anew() -> None:
    given = example("Yes [3], see a[7]. [3]")
    fewer = with_passages(given, 2)
    assert fewer["messages"][1]["content"] == (
        "<passage>\n[1] Page 1\ntext 1 [9]\n</passage>\n\n"
        "<passage>\n[2] Page 3\ntext 3 [9]\n</passage>\n\nQuestion: why [2]?"
    )
    assert fewer["completion"] == "Yes [2], see a[7]. [2]"
    assert fewer["passages"] == [["c1"], ["c3"]]
    assert given == example("Yes [3], see a[7]. [3]")


def test_a_refusal_keeps_the_best_and_many_citations_keep_all() -> None:
    assert with_passages(example("No."), 1)["passages"] == [["c1"]]
    assert with_passages(example("A [2]. B [4]."), 1)["passages"] == [["c2"], ["c4"]]
    assert with_passages(example("A [2]."), 9) == example("A [2].")


def result(id: str, values: list[float], **more: Any) -> dict[str, Any]:
    score = {
        "draft_facts_all": sum(values) / len(values),
        "by_question": {str(n): value for n, value in enumerate(values)},
    }
    return {
        "id": id,
        "question": "",
        "changes": [],
        "training": {"examples": 2400, "seconds": 90.0},
        "held_out_loss": 1.23456,
        "score": score,
        **more,
    }


def test_the_table_compares_with_the_first_variant() -> None:
    seen = []

    def difference(mine: Any, first: Any) -> tuple[float, float, float]:
        seen.append((list(mine), list(first)))
        return 0.25, -0.1, 0.6

    results = [
        result("all", [1.0, 0.0, 0.0]),
        result("b", [1.0, 1.0], changes=["without hand_*"], question="Is it needed?"),
    ]
    done = with_differences(results, difference)
    assert seen == [([1.0, 1.0], [1.0, 0.0])]
    assert done[0]["difference"] is None
    assert done[1]["difference"] == {"mean": 0.25, "low": -0.1, "high": 0.6, "n": 2}
    text = to_markdown(done, title="T")
    row = "| b | `without hand_*` | 2,400 | 1.2346 | 1.5 | +0.250 [-0.100, +0.600] | 1.000 |"
    assert row in text
    assert "- **b**: Is it needed?" in text
    widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
    assert len(widths) == 1


def test_without_questions_the_table_has_losses_alone() -> None:
    bare = [result("all", [1.0], score={}), result("b", [1.0], score={})]
    text = to_markdown(with_differences(bare, lambda *_: (0.0, 0.0, 0.0)), title="T")
    assert "facts" not in text.partition("Loss:")[0]
    assert "| b | nothing | 2,400 | 1.2346 | 1.5 |" in text
