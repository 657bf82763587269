"""The torch back end on a tiny random model: the contract, adapters, and clear errors."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from backend_contract import BackendContract

from hpcllm.errors import ConfigError, GenerationError, ModelError
from hpcllm.models.backends import Backend, GenerationSettings, Message
from hpcllm.models.backends.load import TriedModel, load_tried
from hpcllm.models.backends.pump import Stop
from hpcllm.models.catalog import ModelEntry, load_catalog
from tests.integration.training.tiny import MODEL_ID, Tiny, make_tiny

torch = pytest.importorskip("torch", reason="needs hpcllm[train]")
pytest.importorskip("peft", reason="needs hpcllm[train]")

from hpcllm.models.backends.transformers_backend import (  # noqa: E402
    TorchOptions,
    TransformersBackend,
    Writing,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.timeout(600),
]
QUESTION = [Message("user", "What is a node?")]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def entry(tiny: Tiny) -> ModelEntry:
    return load_catalog(tiny.workspace / "training" / "models.toml").get(MODEL_ID)


@pytest.fixture(scope="module")
def adapter(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's folder whose adapter changes the answers."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny.gguf.parent)
    config = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    adapted = get_peft_model(model, config)
    torch.manual_seed(3)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    folder = tmp_path_factory.mktemp("runs") / "adapter"
    adapted.save_pretrained(folder)
    _change(folder, base_model_name_or_path=MODEL_ID)
    return folder.parent


def _change(folder: Path, **values: Any) -> None:
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text(encoding="utf-8")) | values
    path.write_text(json.dumps(config), encoding="utf-8")


def tried(name: str, entry: ModelEntry, tiny: Tiny, *roots: Path) -> Backend:
    model = TriedModel.named(f"transformers:{name}")
    assert model is not None
    return load_tried(model, entry, models_dir=tiny.models_dir, roots=roots)


def greedy(backend: Backend, tokens: int = 24) -> str:
    return backend.generate(QUESTION, GenerationSettings(answer_tokens=tokens)).read()


class TestTransformers(BackendContract):
    @pytest.fixture
    def backend(self, tiny: Tiny) -> Backend:
        return TransformersBackend.load(
            tiny.gguf.parent,
            id=MODEL_ID,
            options=TorchOptions(context_tokens=700, threads=1, bf16=False),
        )

    def test_stop_text_ends_the_answer_and_is_left_out(self, backend: Backend) -> None:
        """Random words hold no spaces: the stop text is cut from the middle of the answer."""
        whole = greedy(backend)
        half = len(whole) // 2
        stop = whole[half : half + 3]
        stream = backend.generate(QUESTION, GenerationSettings(answer_tokens=24, stop=(stop,)))
        assert stream.read() == whole[: whole.index(stop)]
        assert stream.result is not None and stream.result.finish == "stop"


def test_an_adapter_beside_the_base_and_merged_answer_alike(
    tiny: Tiny, entry: ModelEntry, adapter: Path
) -> None:
    base = tried(f"{MODEL_ID},fp32", entry, tiny)
    beside = tried(f"{MODEL_ID}+{adapter.name},fp32", entry, tiny, adapter.parent)
    merged = tried(f"{MODEL_ID}+{adapter},fp32,merged", entry, tiny, Path())
    assert greedy(beside) == greedy(merged) != greedy(base)
    assert beside.id == f"{MODEL_ID}+adapter"


def test_four_bits_with_an_adapter_answer(tiny: Tiny, entry: ModelEntry, adapter: Path) -> None:
    pytest.importorskip("bitsandbytes", reason="needs hpcllm[train]")
    backend = tried(f"{MODEL_ID}+{adapter},4bit", entry, tiny, Path())
    linear = {type(module).__name__ for module in backend._model.modules()}  # type: ignore[attr-defined]
    assert "Linear4bit" in linear
    assert greedy(backend)


def test_sampling_follows_the_seed_and_the_penalty_changes_the_answer(
    tiny: Tiny, entry: ModelEntry
) -> None:
    backend = tried(MODEL_ID, entry, tiny)

    def text(**values: Any) -> str:
        return backend.generate(QUESTION, GenerationSettings(answer_tokens=24, **values)).read()

    assert text(temperature=1.0, seed=1) == text(temperature=1.0, seed=1)
    assert len({text(temperature=1.5, seed=seed) for seed in range(4)}) > 1
    assert text(repeat_penalty=1.9) != text()


def test_the_greedy_answer_is_that_of_plain_transformers(tiny: Tiny, entry: ModelEntry) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny.gguf.parent)
    model = AutoModelForCausalLM.from_pretrained(tiny.gguf.parent, dtype=torch.float32)
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is a node?"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=False,
    )
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False
    )
    expected = tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)
    assert greedy(tried(f"{MODEL_ID},fp32", entry, tiny)) == expected


def test_an_adapter_of_another_base_is_refused(
    tiny: Tiny, entry: ModelEntry, adapter: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(adapter / "adapter", tmp_path / "other")
    _change(other, base_model_name_or_path="qwen2.5-0.5b-instruct")
    with pytest.raises(ModelError, match=r"was trained on qwen2.5-0.5b-instruct.*use it as trans"):
        tried(f"{MODEL_ID}+{other}", entry, tiny, Path())


@pytest.mark.parametrize("how", ["shape", "layer"])
def test_an_adapter_of_another_shape_is_refused(
    tiny: Tiny, entry: ModelEntry, adapter: Path, tmp_path: Path, how: str
) -> None:
    from safetensors.torch import load_file, save_file

    other = shutil.copytree(adapter / "adapter", tmp_path / "other")
    _change(other, base_model_name_or_path="someone/else")
    weights = load_file(other / "adapter_model.safetensors")
    if how == "shape":
        weights = {n: torch.zeros(t.shape[0] + 1, t.shape[1]) for n, t in weights.items()}
    else:
        weights = {n.replace("layers.1", "layers.7"): t for n, t in weights.items()}
    save_file(weights, other / "adapter_model.safetensors")
    with pytest.raises(ModelError, match=r"does not fit tiny-llama, it was trained on another"):
        tried(f"{MODEL_ID}+{other}", entry, tiny, Path())


def test_folders_that_hold_no_adapter_are_named(
    tiny: Tiny, entry: ModelEntry, adapter: Path, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=r"no adapter nowhere: looked for .*nowhere and .*nowhere"):
        tried(f"{MODEL_ID}+nowhere", entry, tiny, tmp_path, tiny.workspace)
    with pytest.raises(ModelError, match=r"holds no adapter: expected a folder with adapter_conf"):
        tried(f"{MODEL_ID}+{tmp_path}", entry, tiny, Path())
    damaged = shutil.copytree(adapter / "adapter", tmp_path / "damaged")
    (damaged / "adapter_model.safetensors").write_bytes(b"broken")
    with pytest.raises(ModelError, match=r"cannot be read: .*Put its files there again"):
        tried(f"{MODEL_ID}+{damaged}", entry, tiny, Path())


def test_merging_into_four_bits_is_refused(tiny: Tiny, entry: ModelEntry, adapter: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot be merged into a base in four bits"):
        tried(f"{MODEL_ID}+{adapter},4bit,merged", entry, tiny, Path())
    with pytest.raises(ModelError, match="computed in bfloat16"):
        tried(f"{MODEL_ID},4bit,fp32", entry, tiny)


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [({"amx_bf16": True}, "bfloat16"), ({"bf16": True}, "bfloat16"), ({"avx2": True}, "float32")],
)
def test_bfloat16_where_the_processor_computes_in_it(
    tiny: Tiny,
    entry: ModelEntry,
    monkeypatch: pytest.MonkeyPatch,
    capabilities: dict[str, bool],
    expected: str,
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    backend = tried(MODEL_ID, entry, tiny)
    assert str(backend._model.dtype) == f"torch.{expected}"
    assert greedy(backend)


def test_the_vocabulary_is_multiplied_by_a_state_with_its_own_strides(
    tiny: Tiny, entry: ModelEntry
) -> None:
    """A slice of the prompt's states would have torch copy the whole matrix."""
    backend = tried(f"{MODEL_ID},fp32", entry, tiny)
    seen = []
    head = backend._model.get_output_embeddings()
    head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].stride()))
    greedy(backend, 2)
    size = head.weight.shape[1]
    assert seen[0] == (size, size, 1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("transformers:", "has no model: expected transformers:ID"),
        ("transformers:m,8bit", "has option '8bit'.*any of ,4bit, ,fp32, ,merged"),
        ("transformers:m,merged", "has no adapter to merge"),
    ],
)
def test_wrong_names_are_explained(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TriedModel.named(name)


def test_names_are_read() -> None:
    assert TriedModel.named("smollm2-135m-instruct") is None
    assert TriedModel.named("transformers:m+a/b,4bit") == TriedModel(
        "m", "a/b", frozenset(["4bit"])
    )


class Letters:
    """A tokenizer whose tokens are characters."""

    def decode(self, tokens: list[int], skip_special_tokens: bool) -> str:
        return bytes(tokens).decode("utf-8", errors="replace")


def written(text: str, *stops: str) -> tuple[list[str], Writing]:
    pieces: list[str] = []
    writing = Writing(Letters(), stops, pieces.append, Stop())
    writing.put(torch.tensor([[1, 2]]))
    for byte in text.encode():
        if writing.is_over():
            break
        writing.put(torch.tensor([byte]))
    writing.end()
    return pieces, writing


@pytest.mark.parametrize(
    ("text", "stops", "pieces"),
    [
        ("abc", (), ["a", "b", "c"]),
        ("aé€", (), ["a", "é", "€"]),
        ("abENDcd", ("END",), ["a", "b"]),
        ("aENbE", ("END",), ["a", "ENb", "E"]),
        ("a\n\nb", ("\n\n", "b"), ["a"]),
    ],
)
def test_text_comes_in_whole_characters_and_without_the_stop_text(
    text: str, stops: tuple[str, ...], pieces: list[str]
) -> None:
    assert written(text, *stops)[0] == pieces


def test_how_an_answer_ended_is_told() -> None:
    _, writing = written("ab")
    assert writing.finished(5, [ord("b")]).finish == "stop"
    assert writing.finished(5, [ord("x")]).finish == "length"
    assert writing.finished(5, []).usage.prompt == 5
    stopped = Stop()
    stopped.set()
    assert Writing(Letters(), (), lambda _: None, stopped).finished(1, []).finish == "cancelled"


def test_a_waiting_answer_can_be_cancelled(tiny: Tiny, entry: ModelEntry) -> None:
    backend = tried(MODEL_ID, entry, tiny)
    cancel = threading.Event()
    with backend._places.place(Stop()):  # type: ignore[attr-defined]
        stream = backend.generate(QUESTION, GenerationSettings(answer_tokens=3), cancel=cancel)
        threading.Timer(0.2, cancel.set).start()
        assert stream.read() == ""
    assert stream.result is not None and stream.result.finish == "cancelled"


def test_a_failure_of_torch_is_an_error_of_the_engine(tiny: Tiny, entry: ModelEntry) -> None:
    backend = tried(MODEL_ID, entry, tiny)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("not enough memory")

    backend._model.generate = fail  # type: ignore[attr-defined]
    with pytest.raises(GenerationError, match=r"tiny-llama failed: not enough memory"):
        greedy(backend)
