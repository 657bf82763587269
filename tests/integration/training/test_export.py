"""Export of an adapter of the tiny model, and what engines make of the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from hpcllm.errors import TrainingError
from hpcllm.models.adapters import merge_adapter
from hpcllm.models.backends.base import GenerationSettings, Message
from hpcllm.models.catalog import load_catalog
from hpcllm.models.download import pull
from hpcllm.training.dataset import read_examples
from hpcllm.training.recipe import load_recipe
from tests.integration.training.tiny import MODEL_ID, Tiny, make_tiny, write_recipe

pytest.importorskip("trl", reason="needs hpcllm[train]")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::ResourceWarning"),
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def exported(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, Any]]:
    from hpcllm.training.export import ExportJob, export
    from hpcllm.training.run import RunPaths, train

    out = tmp_path_factory.mktemp("run")
    entry = load_catalog(tiny.workspace / "training" / "models.toml").get(MODEL_ID)
    recipe = load_recipe(write_recipe(tiny, steps=80))
    train(recipe, entry, RunPaths(tiny.data, out, tiny.models_dir))
    job = ExportJob(
        adapter=out / "adapter",
        entry=entry,
        base_gguf=tiny.gguf,
        models_dir=tiny.models_dir,
        target=out / "export",
        name="hpc-tiny",
        types=("F32", "F16", "Q8_0"),
    )
    return job, export(job, read_examples(tiny.data)[:6])


def tensors(path: Path) -> dict[str, np.ndarray]:
    return {
        t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(path).tensors
    }


def answers(path: Path, tiny: Tiny, **options: Any) -> list[str]:
    from hpcllm.models.backends.llamacpp import EngineOptions, LlamaCppBackend

    backend = LlamaCppBackend.load(path, id="tiny", options=EngineOptions(threads=1, **options))
    settings = GenerationSettings(answer_tokens=24)
    try:
        texts = []
        for row in read_examples(tiny.data)[:4]:
            messages = [Message(m["role"], m["content"]) for m in row["messages"]]
            with backend.generate(messages, settings) as stream:
                texts.append(stream.read())
        return texts
    finally:
        backend.close()


def test_the_files_answer_as_torch_does(exported: tuple[Any, dict[str, Any]]) -> None:
    _, outcome = exported
    assert outcome["F32"]["identical"] == 1.0
    assert outcome["F16"]["same_start"] >= 0.9
    for type_name, tolerance in (("F32", 1e-4), ("F16", 1e-3), ("Q8_0", 0.02)):
        facts = outcome[type_name]
        assert facts["perplexity_file"] == pytest.approx(facts["perplexity_torch"], rel=tolerance)
        assert facts["prompts"] == 6


def test_merging_without_torch_gives_the_same_weights(
    exported: tuple[Any, dict[str, Any]], tiny: Tiny, tmp_path: Path
) -> None:
    job, _ = exported
    merge_adapter(tiny.gguf, job.adapter, tmp_path / "merged.gguf", "F32")
    ours, torchs = tensors(tmp_path / "merged.gguf"), tensors(job.file("F32"))
    assert ours.keys() == torchs.keys()
    changed = 0
    for name, values in ours.items():
        np.testing.assert_allclose(values, torchs[name], atol=2e-5, err_msg=name)
        changed += not np.array_equal(values, tensors(tiny.gguf)[name])
    assert changed == 2 * 7


def test_the_adapter_file_beside_the_base_answers_like_the_merged_file(
    exported: tuple[Any, dict[str, Any]], tiny: Tiny
) -> None:
    job, _ = exported
    lora = job.target / "hpc-tiny.lora.gguf"
    merged = answers(job.file("F32"), tiny)
    assert answers(tiny.gguf, tiny, adapters=((str(lora), 1.0),)) == merged
    assert answers(tiny.gguf, tiny) != merged


def test_frequency_factors_come_along_and_are_demanded(
    exported: tuple[Any, dict[str, Any]], tmp_path: Path
) -> None:
    from hpcllm.training.gguf_files import write_model

    job, _ = exported
    assert "rope_freqs.weight" in tensors(job.file("Q8_0"))
    bare = make_tiny(tmp_path, frequencies=False)
    with pytest.raises(TrainingError, match=r"no tensor rope_freqs.weight.*use a GGUF file"):
        write_model({}, bare.gguf, tmp_path / "x.gguf", "F16", rope_type="llama3")


def test_weights_of_another_base_are_refused(
    exported: tuple[Any, dict[str, Any]], tiny: Tiny, tmp_path: Path
) -> None:
    from hpcllm.training.gguf_files import write_model

    names = {"model.embed_tokens.weight": np.zeros((3, 64), dtype=np.float32)}
    with pytest.raises(TrainingError, match=r"shape \(3, 64\).*another base"):
        write_model(names, tiny.gguf, tmp_path / "x.gguf", "F16")


def test_merged_weights_and_modelfile_are_there(exported: tuple[Any, dict[str, Any]]) -> None:
    job, _ = exported
    assert (job.target / "merged" / "model.safetensors").is_file()
    assert (job.target / "merged" / "tokenizer.json").is_file()
    config = json.loads((job.target / "merged" / "config.json").read_text(encoding="utf-8"))
    assert "quantization_config" not in config
    assert config["dtype"] == "bfloat16"
    assert "FROM ./hpc-tiny.F32.gguf" in (job.target / "Modelfile").read_text(encoding="utf-8")


def test_the_catalog_entry_makes_the_model_when_it_is_pulled(
    exported: tuple[Any, dict[str, Any]], tiny: Tiny, caplog: pytest.LogCaptureFixture
) -> None:
    from hpcllm.models.files import sha256_of
    from hpcllm.training.export import catalog_entry, ship

    job, _ = exported
    ship(job.adapter, tiny.workspace / "training" / "adapters", "hpc-tiny")
    main = job.file("F32")
    entry = catalog_entry(job, size=main.stat().st_size, sha256=sha256_of(main))
    catalog_file = tiny.workspace / "training" / "models.toml"
    catalog_file.write_text(
        catalog_file.read_text(encoding="utf-8") + "\n" + entry, encoding="utf-8"
    )
    model = load_catalog(catalog_file).get("hpc-tiny")
    assert model.adapted
    files = pull(model, tiny.models_dir)
    assert list(files) == ["hpc-tiny.F32.gguf"]
    assert answers(files["hpc-tiny.F32.gguf"], tiny) == answers(main, tiny)
    # The base was there already, under another model's name: it was not fetched again.
    assert (tiny.models_dir / "hpc-tiny" / "tiny.gguf").samefile(tiny.gguf)
