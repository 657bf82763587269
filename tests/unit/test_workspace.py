"""Settings are validated as a whole, and a workspace is found where a user expects it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcllm.errors import ConfigError
from hpcllm.workspace import (
    SETTINGS_FILE,
    Settings,
    Workspace,
    default_threads,
    load_settings,
    reference_root,
)


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / SETTINGS_FILE
    path.write_text(text, encoding="utf-8")
    return path


def test_an_empty_file_gives_the_defaults(tmp_path: Path) -> None:
    assert load_settings(write(tmp_path, "")) == Settings()


def test_all_problems_are_reported_at_once_with_the_nearest_key(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '[model]\nthread = 4\nanswer_words = "many"\n'
        '[retreival]\npassages = 3\n[site]\nname = ""\n',
    )
    with pytest.raises(ConfigError) as caught:
        load_settings(path, {})
    message = str(caught.value)
    assert len(caught.value.problems) == 4
    assert "4 problem(s)" in message
    assert "model.thread: unknown key; did you mean 'threads'?" in message
    assert "retreival: unknown key; did you mean 'retrieval'?" in message
    assert "model.answer_words" in message and "got 'many'" in message
    assert "site.name" in message


def test_the_environment_overrides_one_key_and_keeps_the_others(tmp_path: Path) -> None:
    path = write(tmp_path, '[model]\nid = "x"\nparallel = 3\n')
    settings = load_settings(path, {"HPCLLM_MODEL__PARALLEL": "5", "HPCLLM_HOME": "/nowhere"})
    assert (settings.model.id, settings.model.parallel) == ("x", 5)


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("HPCLLM_MODEL__THREADS", "-2", r"model\.threads: .*greater than or equal to 0, got '-2'"),
        (
            "HPCLLM_MODEL__TREADS",
            "3",
            r"model\.treads: unknown key; did you mean 'threads'\? Known",
        ),
        ("HPCLLM_SITTE__NAME", "x", r"sitte: unknown key; did you mean 'site'\?"),
        ("HPCLLM_GATE__MINIMUM", "high", r"gate\.minimum: .*a table is written as a JSON object"),
        ("HPCLLM_SERVER__HOSTS", "[1]", r"server\.hosts\.0: .*a list is separated by commas"),
    ],
)
def test_a_wrong_value_from_the_environment_names_its_variable(
    tmp_path: Path, variable: str, text: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load_settings(write(tmp_path, '[model]\nid = "x"\n'), {variable: text})
    said = str(caught.value)
    assert said.startswith("the environment has 1 problem(s):")
    assert f"{variable}={text}: " in said
    assert said.endswith(f"Correct it or take it out: unset {variable}")


def test_problems_of_the_file_and_of_the_environment_are_told_apart(tmp_path: Path) -> None:
    path = write(tmp_path, "[model]\nparallel = 0\n[rest]\na = 1\n")
    with pytest.raises(ConfigError) as caught:
        load_settings(path, {"HPCLLM_MODEL__THREADS": "many", "HPCLLM_REST__A": "2"})
    assert str(caught.value).startswith(f"{path} and the environment have 3 problem(s):")
    of_file = [line for line in caught.value.problems if "HPCLLM_" not in line]
    assert [line.partition(":")[0] for line in of_file] == ["model.parallel", "rest"]


@pytest.mark.parametrize(
    "text", ["a.example.org, b.example.org", '["a.example.org", "b.example.org"]']
)
def test_a_list_comes_from_the_environment_by_commas_or_json(tmp_path: Path, text: str) -> None:
    settings = load_settings(write(tmp_path, ""), {"HPCLLM_SERVER__HOSTS": text})
    assert settings.server.hosts == ("a.example.org", "b.example.org")


def test_a_table_comes_from_the_environment_as_json_or_by_its_keys(tmp_path: Path) -> None:
    path = write(tmp_path, "[gate]\nminimum = { facts_share = 0.5 }\n")
    whole = load_settings(path, {"HPCLLM_GATE__MINIMUM": '{"precision": 0.7}'})
    assert whole.gate.minimum == {"precision": 0.7}
    one = load_settings(path, {"HPCLLM_GATE__MINIMUM__PRECISION": "0.7"})
    assert one.gate.minimum == {"facts_share": 0.5, "precision": 0.7}


def test_texts_that_look_like_numbers_stay_texts_and_empty_means_none(tmp_path: Path) -> None:
    path = write(tmp_path, '[site]\ncluster = "alpha"\n')
    settings = load_settings(path, {"HPCLLM_SITE__NAME": "42", "HPCLLM_SITE__CLUSTER": ""})
    assert (settings.site.name, settings.site.cluster) == ("42", None)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"[site\n", "is not valid TOML"), (b'[site]\nname = "\xff"\n', r"is not UTF-8 .byte \d+.")],
)
def test_a_damaged_file_says_what_is_wrong(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / SETTINGS_FILE
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        load_settings(path)


def test_the_nearest_workspace_upwards_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, '[site]\nname = "outer"\n')
    write(tmp_path / "a", '[site]\nname = "inner"\n')
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert Workspace.find().settings.site.name == "inner"
    assert Workspace.find(tmp_path).settings.site.name == "outer"


def test_without_any_workspace_the_reference_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Workspace.find().root == reference_root()


def test_a_folder_without_settings_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no hpcllm\.toml.*hpcllm init"):
        Workspace.find(tmp_path)


def test_threads_are_capped_and_the_cap_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPCLLM_THREADS", "1")
    assert default_threads() == 1
    monkeypatch.setenv("HPCLLM_THREADS", "none")
    with pytest.raises(ConfigError, match=r"HPCLLM_THREADS must be a whole number.*'none'"):
        default_threads()


def test_a_chunk_limit_below_its_target_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hpcllm.toml").write_text("[index]\nchunk_tokens = 400\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"chunk_limit: .*at least chunk_tokens, which is 400"):
        Workspace.find(tmp_path)


def test_a_working_folder_that_is_gone_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigError, match="no longer exists: change to one that does"):
        Workspace.find()


def test_a_home_of_an_unknown_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hpcllm.toml").write_text("", encoding="utf-8")
    monkeypatch.setenv("HPCLLM_HOME", "~no-such-user-here/models")
    with pytest.raises(ConfigError, match="set HPCLLM_HOME to a folder that can be written"):
        Workspace.find(tmp_path)
