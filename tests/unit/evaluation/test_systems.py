from __future__ import annotations

from pathlib import Path

import pytest

from hpcllm.errors import ConfigError, ModelError
from hpcllm.evaluation.fingerprints import ANSWERING_PARTS, PACKAGE
from hpcllm.evaluation.systems import check_systems, load_systems
from hpcllm.models.catalog import load_catalog
from hpcllm.workspace import reference_root
from tests.unit.evaluation.helpers import system


def write(folder: Path, text: str) -> Path:
    path = folder / "systems.toml"
    path.write_text(text, encoding="utf-8")
    return path


TWO = '[[system]]\nid = "a"\nmodel = "extractive"\n[[system]]\nid = "b"\nmodel = "m"\n'


def test_systems_are_read_in_order_and_chosen_by_id(tmp_path: Path) -> None:
    path = write(tmp_path, TWO)
    assert [s.id for s in load_systems(path)] == ["a", "b"]
    assert [s.id for s in load_systems(path, only=["b"])] == ["b"]


def test_an_unknown_choice_names_the_nearest(tmp_path: Path) -> None:
    path = write(tmp_path, TWO.replace('"a"', '"extractive"'))
    with pytest.raises(ConfigError, match=r"extractiv; did you mean 'extractive'.*extractive, b"):
        load_systems(path, only=["extractiv"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[system]]\nid = "a"\n', r"system\.0\.model: Field required"),
        ('[[system]]\nid = "a"\nmodell = "x"\nmodel = "x"\n', "unknown key; did you mean 'model'"),
        ('[[system]]\nid = "a/b"\nmodel = "x"\n', r"system\.0\.id"),
        ('[[system]]\nid = "a"\nmodel = "x"\nbackend = "openai"\n', "needs base_url"),
        ('[[system]]\nid = "a"\nmodel = "extractive"\nretrieval = false\n', "needs retrieval"),
        ('[[system]]\nid = "a"\nmodel = "x"\nparallel = 0\n', "parallel"),
        ("", "system"),
        (TWO.replace('"b"', '"a"'), "uses ids twice: a"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_systems(write(tmp_path, text))


def test_an_unknown_model_names_system_model_and_nearest() -> None:
    systems = [system("fine"), system("wrong", model="smollm2-135m-instuct")]
    with pytest.raises(ModelError, match=r"'wrong'.*did you mean 'smollm2-135m-instruct'"):
        check_systems(systems, load_catalog())


def test_a_server_may_have_any_model() -> None:
    check_systems([system("x", model="anything", base_url="http://h:1/v1")], load_catalog())


def test_what_is_scored_does_not_change_what_is_answered() -> None:
    one = system("a", model="m", output="draft", label="A", parallel=1)
    other = system("b", model="m", output="checked", parallel=4)
    assert one.answer_settings() == other.answer_settings()
    assert one.answer_settings() != system("a", model="m", passages=4).answer_settings()


def test_the_reference_systems_are_sound() -> None:
    systems = load_systems(reference_root() / "corpus" / "systems.toml")
    check_systems(systems, load_catalog())
    assert systems[0].id == "extractive"


def test_the_parts_that_are_hashed_exist() -> None:
    for part in ANSWERING_PARTS:
        assert (PACKAGE / part).exists(), part
