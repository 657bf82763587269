from __future__ import annotations

from pathlib import Path

import pytest

from hpcllm.errors import ConfigError, TrainingError
from hpcllm.models.catalog import load_catalog
from hpcllm.training.recipe import find_recipe, load_recipe
from hpcllm.workspace import reference_root

FOLDER = reference_root() / "training" / "recipes"
GOOD = """\
[base]
model = "m"
[data]
file = "data/m.jsonl"
[adapter]
id = "hpc-m"
[training]
batch = 3
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "r.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_recipes_that_ship_are_valid_and_name_known_models(path: Path) -> None:
    recipe = load_recipe(path).recipe
    assert load_catalog().get(recipe.base.model).kind == "generator"
    first = path.read_text(encoding="utf-8").split("[base]")[0]
    assert f"hpcllm train {path.stem}" in first and "Hardware:" in first


def test_every_value_has_its_origin(tmp_path: Path) -> None:
    resolved = load_recipe(write(tmp_path, GOOD), ["training.seed=7", "adapter.rank=4"])
    values = resolved.to_json()
    assert values["training.batch"] == {"value": 3, "origin": "recipe"}
    assert values["training.seed"] == {"value": 7, "origin": "command line"}
    assert values["training.accumulate"] == {"value": 4, "origin": "default"}
    assert values["slurm.environment"] == {"value": {}, "origin": "default"}


def test_all_problems_are_listed_with_the_nearest_key(tmp_path: Path) -> None:
    text = GOOD + 'learning_rat = 1e-4\naccumulate = "four"\n[slurm]\ngpus = -1\n'
    with pytest.raises(ConfigError) as caught:
        load_recipe(write(tmp_path, text))
    problems = "\n".join(caught.value.problems)
    assert len(caught.value.problems) == 3
    assert "training.learning_rat: unknown key; did you mean 'learning_rate'?" in problems
    assert "training.accumulate" in problems and "'four'" in problems
    assert "slurm.gpus" in problems and "got -1" in problems


def test_the_hash_follows_what_decides_the_result(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    same = load_recipe(path).sha256
    assert load_recipe(path, ["training.threads=2", "slurm.gpus=1"]).sha256 == same
    assert load_recipe(path, ["training.seed=2"]).sha256 != same


def test_an_unknown_recipe_lists_the_known_ones() -> None:
    with pytest.raises(TrainingError, match=r"did you mean 'smollm2-135m-cpu'.*Known recipes"):
        find_recipe("smollm2-135-cpu", FOLDER)


def test_an_override_without_a_value_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--set takes table.key=value, got 'batch'"):
        load_recipe(write(tmp_path, GOOD), ["batch"])


def test_a_limited_reach_says_what_it_needs(tmp_path: Path) -> None:
    reach = ["training.gradient_tokens=64"]
    with pytest.raises(ConfigError) as caught:
        load_recipe(write(tmp_path, GOOD), reach)
    assert caught.value.problems == (
        "training.gradient_tokens: needs training.batch = 1, got 3; or set it to 0, got 64",
    )
    one = [*reach, "training.batch=1"]
    assert load_recipe(tmp_path / "r.toml", one).recipe.training.gradient_tokens == 64
    more = [*one, "training.gradient_checkpointing=true", "training.distributed=fsdp"]
    with pytest.raises(ConfigError) as caught:
        load_recipe(tmp_path / "r.toml", more)
    assert "training.gradient_checkpointing = false, got true" in caught.value.problems[0]
    assert 'training.distributed = "none" or "ddp", got "fsdp"' in caught.value.problems[0]


def test_the_hash_of_a_run_with_the_whole_prompt_is_that_of_before(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("batch = 3", "batch = 1"))
    same = load_recipe(path).sha256
    assert load_recipe(path, ["training.gradient_tokens=0"]).sha256 == same
    assert load_recipe(path, ["training.gradient_tokens=9"]).sha256 != same
