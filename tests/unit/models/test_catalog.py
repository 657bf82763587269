from __future__ import annotations

from pathlib import Path

import pytest
from factories import entry_of, file_table

from hpcllm.errors import ConfigError, ModelError
from hpcllm.models.catalog import HubPlace, PypiPlace, load_catalog

PLACE = {"kind": "path", "path": "/models"}


def test_shipped_catalog_names_the_hashes_that_were_published() -> None:
    catalog = load_catalog()
    hashes = {file.sha256[:8] for entry in catalog for file in entry.files}
    assert {"8199be6f", "be50c362", "53aa5117", "b179c952", "1d961463", "cc324af0"} <= hashes


def test_every_shipped_generator_fits_its_prompt_into_its_context() -> None:
    for entry in load_catalog():
        if entry.kind == "generator":
            # 400: instructions, chat markup and numbering beside the budget
            assert entry.prompt_tokens + entry.answer_tokens + 400 <= entry.engine_context
            assert entry.engine_context <= entry.context


def test_parts_of_a_file_are_named_in_order() -> None:
    place = PypiPlace(
        kind="pypi", wheel="w{part}", version="2.0", member="w{part}/p{part:02}.bin", parts=11
    )
    wheels = list(place.wheels())
    assert wheels[0] == ("w1==2.0", "w1/p01.bin")
    assert wheels[10] == ("w11==2.0", "w11/p11.bin")
    assert place.describe() == "package index: w1 and 10 more"


def test_unknown_id_names_the_nearest_and_all() -> None:
    with pytest.raises(ModelError, match=r"'smollm2-135m'; did you mean 'hpc-smollm2-135m'\?"):
        load_catalog().get("smollm2-135m")


def test_default_files_leave_optional_and_source_files_out() -> None:
    catalog = load_catalog()
    assert catalog.get("smollm2-135m-instruct").main_file().name.endswith("Q8_0.gguf")
    embedder = catalog.get("all-minilm-l6-v2")
    assert embedder.main_file().name == "model.onnx"
    assert embedder.download_bytes == 22_928_619 + 466_247


def test_only_the_original_llama_weights_are_gated() -> None:
    gated = [entry.id for entry in load_catalog() if entry.is_gated]
    assert gated == ["llama-3.1-8b-instruct-safetensors"]


def test_original_llama_weights_come_from_one_revision() -> None:
    entry = load_catalog().get("llama-3.1-8b-instruct-safetensors")
    places = [place for file in entry.files for place in file.places]
    assert all(isinstance(place, HubPlace) and place.gated for place in places)
    assert len({place.revision for place in places if isinstance(place, HubPlace)}) == 1


def test_a_site_adds_and_replaces_entries(tmp_path: Path) -> None:
    site = tmp_path / "models.toml"
    site.write_text(
        f"""
[[models]]
id = "all-minilm-l6-v2"
kind = "embedder"
family = "bert"
parameters = 1
context = 8
licence = "MIT"
[[models.files]]
name = "m.onnx"
size = 3
sha256 = "{"a" * 64}"
places = [{{ kind = "path", path = "/m" }}]
""",
        encoding="utf-8",
    )
    catalog = load_catalog(site)
    assert len(catalog) == len(load_catalog())
    assert catalog.get("all-minilm-l6-v2").licence == "MIT"
    assert len(load_catalog(tmp_path / "absent.toml")) == len(catalog)


def test_problems_of_a_site_catalog_are_all_listed(tmp_path: Path) -> None:
    site = tmp_path / "models.toml"
    site.write_text(
        """
[[models]]
id = "Bad Name"
kind = "embedder"
family = "bert"
parameters = 0
licens = "MIT"
context = 8
licence = "MIT"
files = [{ name = "m", size = 3, sha256 = "xyz", places = [{ kind = "path", path = "/m" }] }]
""",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as caught:
        load_catalog(site)
    text = str(caught.value)
    assert "models.0.id" in text and "'Bad Name'" in text
    assert "models.0.parameters" in text
    assert "models.0.licens: unknown key; did you mean 'licence'?" in text
    assert "models.0.files.0.sha256" in text


def test_broken_toml_names_the_file(tmp_path: Path) -> None:
    site = tmp_path / "models.toml"
    site.write_text("[[models", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"models\.toml is not valid TOML"):
        load_catalog(site)


def test_a_file_needs_places_or_a_derivation() -> None:
    with pytest.raises(ValueError, match="must have either places or derive"):
        entry_of(file_table("m.bin", b"x"))
    with pytest.raises(ValueError, match=r"made from 'gone\.bin', which is not among"):
        entry_of(file_table("m.bin", b"x", derive={"source": "gone.bin", "type": "Q8_0"}))


def test_file_names_cannot_leave_the_folder() -> None:
    for name in ("../m.bin", "/m.bin", ".hidden", "a/b"):
        with pytest.raises(ValueError, match="name"):
            entry_of(file_table(name, b"x", places=[PLACE]))


def test_unknown_file_of_an_entry_lists_the_names() -> None:
    entry = entry_of(file_table("model.onnx", b"x", places=[PLACE]))
    with pytest.raises(ModelError, match=r"no file 'modell.onnx'; did you mean 'model.onnx'"):
        entry.file("modell.onnx")
